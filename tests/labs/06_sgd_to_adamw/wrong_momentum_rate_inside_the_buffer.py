# replaces: code-momentum
# caught by: check-momentum
# says: From [3] on: the rate stands outside of the buffer


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
            state["v"] = self.momentum * state.get("v", 0) + self.lr * g
            p -= state["v"]
