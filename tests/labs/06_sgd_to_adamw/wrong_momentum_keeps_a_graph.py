# replaces: code-momentum
# caught by: check-momentum
# says: what you keep drags a graph along


class Momentum(Optimizer):
    def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum
        self.weight_decay = weight_decay

    def step(self):
        for p, state in zip(self.parameters, self.state):
            if p.grad is not None:
                state["b"] = self.momentum * state.get("b", 0) + p.grad + self.weight_decay * p
                p.data.sub_(self.lr * state["b"])
