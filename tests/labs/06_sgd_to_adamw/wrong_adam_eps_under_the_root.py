# replaces: code-adam
# caught by: check-adam
# says: added after the root


class Adam(Optimizer):
    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self):
        beta1, beta2 = self.betas
        for p, state in zip(self.parameters, self.state):
            if p.grad is None:
                continue
            g = p.grad + self.weight_decay * p
            t = state["t"] = state.get("t", 0) + 1
            state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
            state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g**2
            m, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
            p -= self.lr * m / (v + self.eps).sqrt()
