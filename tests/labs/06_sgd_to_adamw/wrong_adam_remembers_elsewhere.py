# replaces: code-adam
# caught by: check-adam
# says: goes into the dict self.state[i]


class Adam(Optimizer):
    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.m, self.v = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.t = [0] * len(self.parameters)

    @torch.no_grad()
    def step(self):
        beta1, beta2 = self.betas
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            g = p.grad + self.weight_decay * p
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g**2
            m, v = self.m[i] / (1 - beta1 ** self.t[i]), self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (v.sqrt() + self.eps)
