# replaces: code-sgd
# caught by: check-sgd
# says: change the memory that p has


class SGD(Optimizer):
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                p.data = p.data - self.lr * p.grad
