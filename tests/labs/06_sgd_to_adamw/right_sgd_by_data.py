# replaces: code-sgd


class SGD(Optimizer):
    def step(self):
        for p in self.parameters:
            if p.grad is None:
                continue
            p.data.add_(p.grad.data, alpha=-self.lr)
