# replaces: code-momentum
# caught by: check-momentum
# says: nothing is multiplied by 1 − μ


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
            g = p.grad + self.weight_decay * p
            state["b"] = self.momentum * state["b"] + (1 - self.momentum) * g if "b" in state else g
            p -= self.lr * state["b"]
