# replaces: code-sgd
# caught by: check-sgd
# says: w − lr·g


class SGD(Optimizer):
    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    p += self.lr * p.grad
