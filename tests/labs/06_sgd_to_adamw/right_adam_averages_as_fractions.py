# replaces: code-adam


class Adam(Optimizer):
    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(parameters, lr)
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self):
        # A corrected average is a weighted sum over the sum of the weights: no power of beta is needed.
        for p, state in zip(self.parameters, self.state):
            if p.grad is not None:
                g = p.grad + self.weight_decay * p
                means = []
                for power, beta in enumerate(self.betas, start=1):
                    total, weight = state.get(power, (0, 0))
                    state[power] = (beta * total + g**power, beta * weight + 1)
                    means.append(state[power][0] / state[power][1])
                p -= self.lr * means[0] / (means[1].sqrt() + self.eps)
