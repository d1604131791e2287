# replaces: code-momentum
# caught by: check-momentum
# says: steps without a gradient leave w and b alone


class Momentum(Optimizer):
    def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self):
        for p, state in zip(self.parameters, self.state):
            g = torch.zeros_like(p) if p.grad is None else p.grad
            state["b"] = self.momentum * state.get("b", 0) + g + self.weight_decay * p
            p -= self.lr * state["b"]
