# replaces: code-momentum


class Momentum(Optimizer):
    def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self):
        for p, state in zip(self.parameters, self.state):
            if p.grad is None:
                continue
            if not state:
                state["buffer"] = torch.zeros_like(p)
            b = state["buffer"]
            b.mul_(self.momentum).add_(p.grad).add_(p, alpha=self.weight_decay)
            p.sub_(b, alpha=self.lr)
