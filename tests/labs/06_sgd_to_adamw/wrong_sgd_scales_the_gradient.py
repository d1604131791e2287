# replaces: code-sgd
# caught by: check-sgd
# says: only read p.grad


class SGD(Optimizer):
    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    p.sub_(p.grad.mul_(self.lr))
