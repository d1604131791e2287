# replaces: code-momentum
# caught by: check-momentum
# says: is the buffer the gradient's own tensor


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
            g = p.grad.add(p, alpha=self.weight_decay) if self.weight_decay else p.grad
            if "b" not in state:
                state["b"] = g
            else:
                state["b"].mul_(self.momentum).add_(g)
            p.sub_(state["b"], alpha=self.lr)
