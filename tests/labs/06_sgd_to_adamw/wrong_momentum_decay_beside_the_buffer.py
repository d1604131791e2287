# replaces: code-momentum
# caught by: check-momentum
# says: by hand: b = 1.1


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
            state["b"] = self.momentum * state.get("b", 0) + p.grad
            p -= self.lr * (state["b"] + self.weight_decay * p)
