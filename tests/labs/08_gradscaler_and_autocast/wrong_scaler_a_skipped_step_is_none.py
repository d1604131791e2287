# replaces: code-scaler
# caught by: check-scaler
# says: the first step was skipped


class Scaler:
    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        self.factor, self.growth, self.backoff, self.interval = (scale, growth, backoff, interval)
        self.good = 0
        self.overflows = {}
        self.stepped = set()

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.factor

    def unscale(self, optimizer) -> None:
        if optimizer in self.overflows:
            raise RuntimeError("unscale: this optimizer was unscaled or stepped already since the last update")
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        self.overflows[optimizer] = unscale(parameters, self.factor)

    def step(self, optimizer) -> bool:
        if optimizer in self.stepped:
            raise RuntimeError("step: this optimizer was stepped already since the last update")
        if optimizer not in self.overflows:
            self.unscale(optimizer)
        if not self.overflows[optimizer]:
            optimizer.step()
            self.stepped.add(optimizer)
        return not self.overflows[optimizer]

    def update(self) -> None:
        if not self.overflows:
            raise RuntimeError("update: no optimizer was unscaled or stepped since the last update")
        overflow = any(self.overflows.values())
        self.factor, self.good = next_scale(self.factor, self.good, overflow, self.growth, self.backoff, self.interval)
        self.overflows.clear()
        self.stepped.clear()

    def state_dict(self) -> dict:
        return {"scale": self.factor, "good": self.good}

    def load_state_dict(self, state: dict) -> None:
        self.factor, self.good = (state["scale"], state["good"])
