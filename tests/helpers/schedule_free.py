"""An optimizer with two modes, for tests without its package."""

import torch


class ScheduleFree(torch.optim.Optimizer):
    """SGD that trains at y, a mixture of the mean x of its steps and of where plain SGD would be, z; x is its result.

    As in the schedulefree package: `step` refuses eval mode, and the modes trade y for x in place.
    """

    def __init__(self, parameters, lr=1.0, beta=0.9):
        super().__init__(parameters, {"lr": lr, "beta": beta, "steps": 0, "train_mode": False})

    @torch.no_grad()
    def train(self):
        self._move(True, lambda group: 1 - group["beta"])

    @torch.no_grad()
    def eval(self):
        self._move(False, lambda group: 1 - 1 / group["beta"])

    def _move(self, train_mode, weight):
        for group in self.param_groups:
            for p in group["params"] if group["train_mode"] != train_mode else ():
                if "z" in self.state[p]:
                    p.lerp_(self.state[p]["z"], weight(group))
            group["train_mode"] = train_mode

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if not group["train_mode"]:
                raise ValueError("call train() first")
            group["steps"] += 1
            for p in group["params"]:
                z = self.state[p].setdefault("z", p.clone())
                p.lerp_(z, 1 / group["steps"])
                p.add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - 1 / group["steps"]) - 1))
                z.sub_(p.grad, alpha=group["lr"])
