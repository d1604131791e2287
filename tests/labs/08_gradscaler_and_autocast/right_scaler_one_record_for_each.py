# replaces: code-scaler


class Scaler:
    def __init__(self, scale=65536.0, growth=2.0, backoff=0.5, interval=2000):
        self.factor, self.good = scale, 0
        self.rule = (growth, backoff, interval)
        self.done = []

    def scale(self, loss):
        return self.factor * loss

    def record(self, optimizer):
        return next((record for record in self.done if record["of"] is optimizer), None)

    def unscale(self, optimizer):
        if self.record(optimizer):
            raise RuntimeError("no second unscale")
        parameters = []
        for group in optimizer.param_groups:
            parameters += group["params"]
        self.done.append({"of": optimizer, "overflow": unscale(parameters, self.factor), "stepped": False})

    def step(self, optimizer):
        record = self.record(optimizer)
        if record and record["stepped"]:
            raise RuntimeError("no second step")
        if not record:
            self.unscale(optimizer)
            record = self.done[-1]
        record["stepped"] = True
        if record["overflow"]:
            return False
        optimizer.step()
        return True

    def update(self):
        if len(self.done) == 0:
            raise RuntimeError("nothing to update from")
        self.factor, self.good = next_scale(self.factor, self.good, any(r["overflow"] for r in self.done), *self.rule)
        self.done = []

    def state_dict(self):
        return dict(good=self.good, scale=self.factor)

    def load_state_dict(self, state):
        self.good = state["good"]
        self.factor = state["scale"]
