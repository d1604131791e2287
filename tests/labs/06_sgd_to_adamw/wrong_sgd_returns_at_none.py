# replaces: code-sgd
# caught by: check-sgd
# says: with continue and not with return


class SGD(Optimizer):
    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is None:
                    return
                p -= self.lr * p.grad
