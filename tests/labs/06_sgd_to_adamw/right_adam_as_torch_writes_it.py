# replaces: code-adam


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
            if not state:
                state.update(t=torch.tensor(0.0), m=torch.zeros_like(p), v=torch.zeros_like(p))
            state["t"] += 1
            t = state["t"].item()
            state["m"].lerp_(g, 1 - beta1)
            state["v"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
            root = (state["v"].sqrt() / (1 - beta2**t) ** 0.5).add_(self.eps)
            p.addcdiv_(state["m"], root, value=-self.lr / (1 - beta1**t))
