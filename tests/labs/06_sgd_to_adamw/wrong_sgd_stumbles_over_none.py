# replaces: code-sgd
# caught by: check-sgd
# says: NoneType
# says: skip a parameter whose grad is None


class SGD(Optimizer):
    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                p -= self.lr * p.grad
