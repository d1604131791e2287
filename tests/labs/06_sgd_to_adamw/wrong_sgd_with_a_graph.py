# replaces: code-sgd
# caught by: check-sgd
# says: a leaf Variable that requires grad is being used in an in-place operation
# says: torch.no_grad()


class SGD(Optimizer):
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                p -= self.lr * p.grad
