# replaces: code-momentum
# caught by: check-momentum
# says: whether p.grad itself was changed


class Momentum(Optimizer):
    def __init__(self, parameters, lr: float, momentum: float = 0.9, weight_decay: float = 0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self) -> None:
        for p, state in zip(self.parameters, self.state, strict=True):
            if p.grad is None:
                continue
            g = p.grad
            g += self.weight_decay * p
            if "buffer" in state:
                state["buffer"].mul_(self.momentum).add_(g)
            else:
                state["buffer"] = g
            p -= self.lr * state["buffer"]
