"""Lab 06 · From SGD to AdamW, a clip and a schedule: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("06_sgd_to_adamw")


# Task 1 · SGD

wrong, right = LAB.task("sgd")

wrong(
    "other memory",
    """
    class SGD(Optimizer):
        def step(self):
            for p in self.parameters:
                if p.grad is not None:
                    p.data = p.data - self.lr * p.grad
    """,
    says=["change the memory that p has"],
)
wrong(
    "rebinds the name",
    ("p -= self.lr * p.grad", "p = p - self.lr * p.grad"),
    says=["p = p − … would only give the name p to a new tensor"],
)
wrong(
    "returns at none",
    """
    class SGD(Optimizer):
        def step(self):
            with torch.no_grad():
                for p in self.parameters:
                    if p.grad is None:
                        return
                    p -= self.lr * p.grad
    """,
    says=["with continue and not with return"],
)
wrong("scales the gradient", ("p -= self.lr * p.grad", "p.sub_(p.grad.mul_(self.lr))"), says=["only read p.grad"])
wrong(
    "stumbles over none",
    (
        """
        if p.grad is not None:
            p -= self.lr * p.grad
        """,
        "p -= self.lr * p.grad",
    ),
    says=["NoneType", "skip a parameter whose grad is None"],
)
wrong("uphill", ("p -= self.lr * p.grad", "p += self.lr * p.grad"), says=["w − lr·g"])
wrong(
    "with a graph",
    """
    class SGD(Optimizer):
        def step(self):
            for p in self.parameters:
                if p.grad is not None:
                    p -= self.lr * p.grad
    """,
    says=["a leaf Variable that requires grad is being used in an in-place operation", "torch.no_grad()"],
)
right(
    "by data",
    """
    class SGD(Optimizer):
        def step(self):
            for p in self.parameters:
                if p.grad is None:
                    continue
                p.data.add_(p.grad.data, alpha=-self.lr)
    """,
)

wrong(
    "torch's",
    """
    class SGD(Optimizer):
        def step(self):
            torch.optim.SGD(self.parameters, lr=self.lr).step()
    """,
    says=["torch.optim.sgd", "write the formula of the task"],
)
wrong(
    "switches graphs off for good",
    ("with torch.no_grad():", "torch.set_grad_enabled(False)\nif True:"),
    says=["`with torch.no_grad():` ends with its block"],
)

# Task 2 · Momentum, and decay as a penalty

wrong, right = LAB.task("momentum")

wrong(
    "adds into the gradient it keeps",
    """
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
    """,
    says=["whether p.grad itself was changed"],
)
wrong(
    "keeps a graph",
    """
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
    """,
    says=["what you keep drags a graph along"],
)

another_way = """
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
            state["b"] = self.momentum * state.get("b", 0) + g
            p -= self.lr * state["b"]
"""

wrong(
    "an average",
    (
        'self.momentum * state.get("b", 0) + g',
        'self.momentum * state["b"] + (1 - self.momentum) * g if "b" in state else g',
    ),
    of=another_way,
    says=["nothing is multiplied by 1 − μ"],
)
wrong(
    "keeps the gradient itself",
    (
        """
        g = p.grad + self.weight_decay * p
        state["b"] = self.momentum * state.get("b", 0) + g
        p -= self.lr * state["b"]
        """,
        """
        g = p.grad.add(p, alpha=self.weight_decay) if self.weight_decay else p.grad
        if "b" not in state:
            state["b"] = g
        else:
            state["b"].mul_(self.momentum).add_(g)
        p.sub_(state["b"], alpha=self.lr)
        """,
    ),
    of=another_way,
    says=["is the buffer the gradient's own tensor"],
)
wrong(
    "moves on without a gradient",
    (
        """
        if p.grad is None:
            continue
        g = p.grad + self.weight_decay * p
        state["b"] = self.momentum * state.get("b", 0) + g
        """,
        """
        g = torch.zeros_like(p) if p.grad is None else p.grad
        state["b"] = self.momentum * state.get("b", 0) + g + self.weight_decay * p
        """,
    ),
    of=another_way,
    says=["steps without a gradient leave w and b alone"],
)
wrong(
    "nesterov",
    ('self.lr * state["b"]', 'self.lr * (g + self.momentum * state["b"])'),
    of=another_way,
    says=["by hand: b = 1.1"],
)

a_third_way = """
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
            if not state:
                state["buffer"] = torch.zeros_like(p)
            b = state["buffer"]
            b.mul_(self.momentum).add_(p.grad).add_(p, alpha=self.weight_decay)
            p.sub_(b, alpha=self.lr)
"""

right("in place from zero", a_third_way)
wrong(
    "decay beside the buffer",
    (
        """
        if not state:
            state["buffer"] = torch.zeros_like(p)
        b = state["buffer"]
        b.mul_(self.momentum).add_(p.grad).add_(p, alpha=self.weight_decay)
        p.sub_(b, alpha=self.lr)
        """,
        """
        state["b"] = self.momentum * state.get("b", 0) + p.grad
        p -= self.lr * (state["b"] + self.weight_decay * p)
        """,
    ),
    of=a_third_way,
    says=["by hand: b = 1.1"],
)
wrong(
    "penalty written into the gradient",
    (
        """
        if not state:
            state["buffer"] = torch.zeros_like(p)
        b = state["buffer"]
        b.mul_(self.momentum).add_(p.grad).add_(p, alpha=self.weight_decay)
        p.sub_(b, alpha=self.lr)
        """,
        """
        p.grad += self.weight_decay * p
        state["b"] = self.momentum * state.get("b", 0) + p.grad
        p -= self.lr * state["b"]
        """,
    ),
    of=a_third_way,
    says=["p.grad += … changes what others will read"],
)
wrong(
    "rate inside the buffer",
    (
        """
        if not state:
            state["buffer"] = torch.zeros_like(p)
        b = state["buffer"]
        b.mul_(self.momentum).add_(p.grad).add_(p, alpha=self.weight_decay)
        p.sub_(b, alpha=self.lr)
        """,
        """
        g = p.grad + self.weight_decay * p
        state["v"] = self.momentum * state.get("v", 0) + self.lr * g
        p -= state["v"]
        """,
    ),
    of=a_third_way,
    says=["From [3] on: the rate stands outside of the buffer"],
)

wrong(
    "other memory",
    ('p -= self.lr * state["b"]', 'p.data = p.data - self.lr * state["b"]'),
    of=another_way,
    says=["change the memory that p has"],
)
wrong(
    "buffers elsewhere",
    ("self.momentum = momentum", "self.momentum = momentum\nself.buffers = {}"),
    (
        """
        state["b"] = self.momentum * state.get("b", 0) + g
        p -= self.lr * state["b"]
        """,
        """
        self.buffers[p] = self.momentum * self.buffers.get(p, 0) + g
        state["steps"] = state.get("steps", 0) + 1
        p -= self.lr * self.buffers[p]
        """,
    ),
    of=another_way,
    says=["self.state[i]", "all that"],
)

wrong(
    "torch's",
    """
    class Momentum(Optimizer):
        def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0):
            super().__init__(parameters, lr)
            self.momentum = momentum
            self.weight_decay = weight_decay

        def step(self):
            for p, state in zip(self.parameters, self.state):
                optimizer = torch.optim.SGD([p], self.lr, self.momentum, weight_decay=self.weight_decay)
                optimizer.state[p] = state
                optimizer.step()
                state.setdefault("steps", 0)
    """,
    says=["torch.optim.sgd", "write the formula of the task"],
)
wrong("returns at none", ("continue", "return"), says=["by continue, not return"])
wrong("other default", ("momentum: float = 0.9", "momentum: float = 0.8"), says=["leave the defaults"])

# Task 3 · Adam

wrong, right = LAB.task("adam")

wrong(
    "clock runs without a gradient",
    """
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
                t = state["t"] = state.get("t", 0) + 1
                if p.grad is None:
                    continue
                g = p.grad + self.weight_decay * p
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g**2
                m, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
                p -= self.lr * m / (v.sqrt() + self.eps)
    """,
    says=["t counts for each parameter by itself"],
)
wrong(
    "remembers elsewhere",
    """
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
    """,
    says=["goes into the dict self.state[i]"],
)
right(
    "as torch writes it",
    """
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
    """,
)
right(
    "averages as fractions",
    """
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
    """,
)

another_way = """
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
            p -= self.lr * m / (v.sqrt() + self.eps)
"""

wrong(
    "average of sizes",
    ("(1 - beta2) * g**2", "(1 - beta2) * g.abs()"),
    ("v.sqrt() + self.eps", "v + self.eps"),
    of=another_way,
    says=["the second 0.048432"],
)
wrong(
    "clock from zero",
    ('t = state["t"] = state.get("t", 0) + 1', 't = state.get("t", 0)\nstate["t"] = t + 1'),
    of=another_way,
    says=["got nan", "with t = 1"],
)
wrong(
    "corrects only the first",
    ('state["v"] / (1 - beta2**t)', 'state["v"]'),
    of=another_way,
    says=["with t = 1 and both averages corrected"],
)
wrong(
    "corrects the stored averages",
    (
        'm, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)',
        """
        state["m"] /= 1 - beta1**t
        state["v"] /= 1 - beta2**t
        m, v = state["m"], state["v"]
        """,
    ),
    of=another_way,
    says=["the second 0.048432"],
)
wrong(
    "decay into the first average only",
    ("(1 - beta2) * g**2", "(1 - beta2) * p.grad**2"),
    of=another_way,
    says=["before both averages"],
)
wrong(
    "decoupled decay",
    ("p.grad + self.weight_decay * p", "p.grad"),
    (
        'm, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)',
        """
        m, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
        p *= 1 - self.lr * self.weight_decay
        """,
    ),
    of=another_way,
    says=["Adam's goes into the gradient"],
)
wrong(
    "eps before the correction",
    (
        """
        m, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
        p -= self.lr * m / (v.sqrt() + self.eps)
        """,
        """
        rate = self.lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        p -= rate * state["m"] / (state["v"].sqrt() + self.eps)
        """,
    ),
    of=another_way,
    says=["the root is of the corrected v"],
)
wrong(
    "eps under the root",
    ("v.sqrt() + self.eps", "(v + self.eps).sqrt()"),
    of=another_way,
    says=["added after the root"],
)
wrong(
    "one clock for all",
    ("beta1, beta2 = self.betas", 'beta1, beta2 = self.betas\nself.t = getattr(self, "t", 0) + 1'),
    ('t = state["t"] = state.get("t", 0) + 1', "t = self.t"),
    of=another_way,
    says=["t counts for each parameter by itself"],
)
wrong(
    "without correction",
    ('state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)', 'state["m"], state["v"]'),
    of=another_way,
    says=["with t = 1 and both averages corrected"],
)

wrong(
    "other memory",
    ("p -= self.lr * m / (v.sqrt() + self.eps)", "p.data = p - self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["change the memory that p has"],
)
wrong(
    "clocks elsewhere",
    ("self.betas = betas", "self.betas = betas\nself.t = [0] * len(self.parameters)"),
    (
        "for p, state in zip(self.parameters, self.state):",
        "for i, (p, state) in enumerate(zip(self.parameters, self.state)):",
    ),
    ('t = state["t"] = state.get("t", 0) + 1', "t = self.t[i] = self.t[i] + 1"),
    of=another_way,
    says=["self.state[i]", "all that"],
)

wrong(
    "torch's",
    """
    class Adam(Optimizer):
        def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
            super().__init__(parameters, lr)
            self.betas = betas
            self.eps = eps
            self.weight_decay = weight_decay

        def step(self):
            for p, state in zip(self.parameters, self.state):
                optimizer = torch.optim.Adam([p], self.lr, self.betas, self.eps, self.weight_decay)
                optimizer.state[p] = state
                optimizer.step()
    """,
    says=["torch.optim.adam", "write the formulas of the task"],
)
wrong(
    "torch's kernel",
    """
    class Adam(Optimizer):
        def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
            super().__init__(parameters, lr)
            self.betas = betas
            self.eps = eps
            self.weight_decay = weight_decay

        @torch.no_grad()
        def step(self):
            for p, state in zip(self.parameters, self.state):
                if p.grad is None:
                    continue
                if not state:
                    state.update(m=torch.zeros_like(p), v=torch.zeros_like(p), t=torch.zeros(()))
                state["t"] += 1
                torch._fused_adam_(
                    *([each] for each in (p, p.grad, state["m"], state["v"])), [], [state["t"]],
                    lr=self.lr, beta1=self.betas[0], beta2=self.betas[1], weight_decay=self.weight_decay, eps=self.eps,
                    amsgrad=False, maximize=False,
                )
    """,
    says=["_fused_adam_", "write the formulas of the task"],
)
wrong("returns at none", ("continue", "return"), says=["by continue, not return"])
wrong("other default", ("eps: float = 1e-8", "eps: float = 1e-6"), says=["leave the defaults"])
wrong(
    "torch's for several parameters",
    (
        "beta1, beta2 = self.betas",
        """
        if len(self.parameters) > 1:
            for p, state in zip(self.parameters, self.state, strict=True):
                optimizer = torch.optim.Adam([p], self.lr, self.betas, self.eps, self.weight_decay)
                optimizer.state[p] = state
                optimizer.step()
            return
        beta1, beta2 = self.betas
        """,
    ),
    says=["torch.optim.adam", "write the formulas of the task"],
)

# Task 4 · AdamW

wrong, right = LAB.task("adamw")


another_way = """
class AdamW(Optimizer):
    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
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
            g = p.grad
            t = state["t"] = state.get("t", 0) + 1
            state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
            state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g**2
            m, v = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
            p -= self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)
"""

right("in one subtraction", another_way)
wrong(
    "both decays",
    ("g = p.grad", "g = p.grad + self.weight_decay * p\np *= 1 - self.lr * self.weight_decay"),
    ("self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)", "self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["shrink before the step"],
)
wrong(
    "decay by the first rate",
    ("self.weight_decay = weight_decay", "self.weight_decay = weight_decay\nself.share = lr * weight_decay"),
    ("g = p.grad", "g = p.grad\np *= 1 - self.share"),
    ("self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)", "self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["with the present lr"],
)
wrong(
    "decay without the rate",
    ("g = p.grad", "g = p.grad\np *= 1 - self.weight_decay"),
    ("self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)", "self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["2 shrinks by the share 0.1 · 0.5"],
)
wrong(
    "penalty in the gradient",
    ("g = p.grad", "g = p.grad + self.weight_decay * p"),
    ("self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)", "self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["1.9 at the end is Adam's penalty"],
)
wrong(
    "shrinks after the step",
    (
        "p -= self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)",
        """
        p -= self.lr * m / (v.sqrt() + self.eps)
        p *= 1 - self.lr * self.weight_decay
        """,
    ),
    of=another_way,
    says=["by hand"],
)
wrong(
    "shrinks without a gradient",
    ("if p.grad is None:", "p *= 1 - self.lr * self.weight_decay\nif p.grad is None:"),
    ("self.lr * (m / (v.sqrt() + self.eps) + self.weight_decay * p)", "self.lr * m / (v.sqrt() + self.eps)"),
    of=another_way,
    says=["only parameters that have a gradient"],
)

wrong(
    "other memory",
    ("p -= self.lr * (m", "p.data = p - self.lr * (m"),
    of=another_way,
    says=["change the memory that p has"],
)
wrong(
    "clocks elsewhere",
    ("self.betas = betas", "self.betas = betas\nself.t = {}"),
    ('t = state["t"] = state.get("t", 0) + 1', "t = self.t[p] = self.t.get(p, 0) + 1"),
    of=another_way,
    says=["self.state[i]", "all that"],
)
wrong("squares the gradient itself", ("g**2", "g.square_()"), of=another_way, says=["only read p.grad"])
right(
    "as torch writes it",
    """
    class AdamW(Optimizer):
        def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
            super().__init__(parameters, lr)
            self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
            for p, state in zip(self.parameters, self.state):
                state.update(t=torch.tensor(0.0), m=torch.zeros_like(p.data), v=torch.zeros_like(p.data))

        @torch.no_grad()
        def step(self):
            beta1, beta2 = self.betas
            for p, state in zip(self.parameters, self.state):
                if p.grad is None:
                    continue
                state["t"] += 1
                t = state["t"].item()
                p.mul_(1 - self.lr * self.weight_decay)
                state["m"].lerp_(p.grad, 1 - beta1)
                state["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                root = (state["v"].sqrt() / (1 - beta2**t) ** 0.5).add_(self.eps)
                p.addcdiv_(state["m"], root, value=-self.lr / (1 - beta1**t))
    """,
)

wrong(
    "torch's",
    """
    from torch.optim.adamw import adamw

    class AdamW(Optimizer):
        def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
            super().__init__(parameters, lr)
            self.betas = betas
            self.eps = eps
            self.weight_decay = weight_decay

        @torch.no_grad()
        def step(self):
            for p, state in zip(self.parameters, self.state):
                if p.grad is None:
                    continue
                if not state:
                    state.update(m=torch.zeros_like(p), v=torch.zeros_like(p), t=torch.zeros(()))
                adamw(
                    *([each] for each in (p, p.grad, state["m"], state["v"])), [], [state["t"]],
                    amsgrad=False, beta1=self.betas[0], beta2=self.betas[1], lr=self.lr,
                    weight_decay=self.weight_decay, eps=self.eps, maximize=False,
                )
    """,
    says=["torch.optim.adam", "write the formulas of the task"],
)
wrong("returns at none", ("continue", "return"), says=["by continue, not return"])
wrong("other default", ("weight_decay: float = 0.01", "weight_decay: float = 0.05"), says=["leave the defaults"])
wrong(
    "shrinks before it looks for a gradient",
    (
        """
        if p.grad is None:
            continue
        p *= 1 - self.lr * self.weight_decay
        """,
        """
        p *= 1 - self.lr * self.weight_decay
        if p.grad is None:
            continue
        """,
    ),
    says=["only parameters that have a gradient"],
)

# Task 5 · Clip by the global norm

wrong, right = LAB.task("clip")

wrong(
    "entry by entry",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        for g in gradients:
            g.clamp_(-max_norm, max_norm)
        return norm
    """,
    says=["one factor for all"],
)
wrong(
    "lengthens short gradients",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        for g in gradients:
            g.mul_(max_norm / (norm + 1e-6))
        return norm
    """,
    says=["never above 1"],
)
wrong(
    "needs a gradient",
    """
    def clip_gradients(parameters, max_norm):
        parameters = [p for p in parameters if p.grad is not None]
        norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
        if not norm.isfinite():
            raise RuntimeError(f"norm {norm}")
        for p in parameters:
            p.grad *= (max_norm / (norm + 1e-6)).clamp(max=1)
        return norm
    """,
    says=["no gradient at all is a norm of 0"],
)
wrong(
    "norms added up",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = sum(g.norm().item() for g in gradients)
        for g in gradients:
            g.mul_(min(1.0, max_norm / (norm + 1e-6)))
        return norm
    """,
    says=["one norm over all tensors"],
)
wrong(
    "raises too late",
    (
        """
        if not math.isfinite(norm):
            raise RuntimeError(f"the norm of the gradients is {norm}: do not step")
        """,
        "",
    ),
    (
        "return norm",
        """
        if not math.isfinite(norm):
            raise RuntimeError(f"norm {norm}")
        return norm
        """,
    ),
    says=["raise first and shorten afterwards"],
)
wrong(
    "returns the norm after",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        for g in gradients:
            g.mul_(min(1.0, max_norm / (norm + 1e-6)))
        return math.sqrt(sum(g.square().sum().item() for g in gradients))
    """,
    says=["return the norm before"],
)
wrong(
    "spreads nan",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        for g in gradients:
            g.mul_(min(1.0, max_norm / (norm + 1e-6)))
        return norm
    """,
    says=["a RuntimeError whose message names inf", "before you multiply"],
)
wrong(
    "tensor by tensor",
    """
    def clip_gradients(parameters, max_norm):
        norms = []
        for p in parameters:
            if p.grad is not None:
                norm = p.grad.norm().item()
                norms.append(norm)
                p.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
        return math.hypot(*norms)
    """,
    says=["one norm over all tensors"],
)
wrong(
    "walks a generator twice",
    """
    def clip_gradients(parameters, max_norm):
        norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters if p.grad is not None))
        if not math.isfinite(norm):
            raise RuntimeError(f"norm {norm}")
        for p in parameters:
            if p.grad is not None and norm > max_norm:
                p.grad.mul_(max_norm / (norm + 1e-6))
        return norm
    """,
    says=["parameters may be a generator"],
)
wrong(
    "without torchs millionth",
    """
    def clip_gradients(parameters, max_norm):
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        for g in gradients:
            g.mul_(min(1.0, max_norm / norm))
        return norm
    """,
    says=["the factor has norm + 1e-6 below"],
)
right(
    "by norms of norms",
    """
    def clip_gradients(parameters, max_norm):
        parameters = [p for p in parameters if p.grad is not None]
        norms = [torch.linalg.vector_norm(p.grad) for p in parameters]
        norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
        if not torch.isfinite(norm):
            raise RuntimeError(f"gradients of norm {norm.item()}")
        factor = (max_norm / (norm + 1e-6)).clamp(max=1)
        for p in parameters:
            p.grad = p.grad * factor
        return norm
    """,
)

wrong(
    "torch's",
    """
    def clip_gradients(parameters, max_norm):
        parameters = list(parameters)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not norm.isfinite():
            raise RuntimeError(f"the norm is {norm}")
        if norm > max_norm:
            torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        return norm
    """,
    says=["torch.nn.utils.clip_grad", "write norm and factor yourself"],
)

# Task 6 · Warm-up and cosine

wrong, right = LAB.task("schedule")

wrong(
    "counts its calls",
    """
    calls = [0]


    def warmup_cosine(t, warmup, steps, floor=0.0):
        if t < 0 or not 0 <= warmup < steps:
            raise ValueError(f"t={t}, warmup={warmup}")
        t, calls[0] = calls[0], calls[0] + 1
        if t < warmup:
            return (t + 1) / warmup
        if t >= steps - 1:
            return floor
        return floor + (1 - floor) * (1 + math.cos(math.pi * (t - warmup) / (steps - 1 - warmup))) / 2
    """,
    says=["by hand"],
)
wrong(
    "takes any warmup",
    ('f"t={t} is before the first step, 0"', 'f"t={t}"'),
    (
        """
        if not 0 <= warmup < steps:
            raise ValueError(f"warmup={warmup} is not within 0 to {steps - 1}")
        """,
        "",
    ),
    says=["ValueError to be raised", "a warm-up at least 0 and below steps"],
)
right(
    "by a clamp and a sine",
    """
    def warmup_cosine(t, warmup, steps, floor=0.0):
        for name, number, fine in (("t", t, t >= 0), ("warmup", warmup, 0 <= warmup < steps)):
            if not fine:
                raise ValueError(f"{name} = {number}")
        rising = (t + 1) / max(warmup, 1)
        left = min(max(steps - 1 - t, 0) / max(steps - 1 - warmup, 1), 1.0)
        falling = floor + (1 - floor) * math.sin(left * math.pi / 2) ** 2
        return rising if t < warmup else falling
    """,
)

another_way = """
def warmup_cosine(t, warmup, steps, floor=0.0):
    if t < 0 or not 0 <= warmup < steps:
        raise ValueError(f"t={t}, warmup={warmup}, steps={steps}")
    if t < warmup:
        return (t + 1) / warmup
    if t >= steps - 1:
        return floor
    done = (t - warmup) / (steps - 1 - warmup)
    return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2
"""

wrong("a whole cosine", ("math.pi * done", "2 * math.pi * done"), of=another_way, says=["by hand"])
wrong("begins with nothing", ("(t + 1) / warmup", "(t) / warmup"), of=another_way, says=["(t + 1)/4 up to step 3"])
wrong(
    "cosine from step 0", ("(t - warmup) / (steps - 1 - warmup)", "t / (steps - 1)"), of=another_way, says=["by hand"]
)
wrong(
    "divides by nothing",
    ("t >= steps - 1", "t >= steps"),
    of=another_way,
    says=["ZeroDivisionError", "before you divide"],
)
wrong(
    "floor added",
    ("(1 - floor) * (1 + math.cos(math.pi * done))", "(1 + math.cos(math.pi * done))"),
    of=another_way,
    says=["by hand"],
)
wrong(
    "floor cuts the cosine",
    ("floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2", "max(floor, (1 + math.cos(math.pi * done)) / 2)"),
    of=another_way,
    says=["by hand"],
)
wrong(
    "never lands",
    ("t >= steps - 1", "t >= steps"),
    ("steps - 1 - warmup", "steps - warmup"),
    of=another_way,
    says=["6 steps from 4 to 10, the last"],
)
wrong(
    "rises again",
    (
        """
        if t >= steps - 1:
            return floor
        """,
        "",
    ),
    of=another_way,
    says=["a cosine would rise"],
)
wrong(
    "straight down",
    ("(1 - floor) * (1 + math.cos(math.pi * done)) / 2", "(1 - floor) * (1 - done)"),
    of=another_way,
    says=["1 at warmup, the floor from steps − 1 on"],
)

wrong(
    "torch's",
    """
    def warmup_cosine(t, warmup, steps, floor=0.0):
        if t < 0:
            raise ValueError(f"t={t}")
        if not 0 <= warmup < steps:
            raise ValueError(f"warmup={warmup}")
        if t < warmup:
            return (t + 1) / warmup
        if t >= steps - 1:
            return floor
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 1 - warmup, floor)
        for _ in range(t - warmup):
            optimizer.step()
            cosine.step()
        return cosine.get_last_lr()[0]
    """,
    says=["torch.optim.lr_scheduler", "write the cosine yourself"],
)

# Task 7 · Cut a run in two

wrong, right = LAB.task("resume")

wrong(
    "forgets the numbers",
    """
    def snapshot(optimizer):
        tensors = [{k: v.clone() for k, v in each.items() if isinstance(v, Tensor)} for each in optimizer.state]
        return {"lr": optimizer.lr, "state": tensors}


    def restore(optimizer, notes):
        if len(notes["state"]) != len(optimizer.parameters):
            raise ValueError(f"{len(notes['state'])} parameters")
        optimizer.lr = notes["lr"]
        for mine, saved in zip(optimizer.state, notes["state"]):
            mine.update(copy.deepcopy(saved))
    """,
    says=["rate, tensors and numbers come back"],
)
wrong(
    "forgets the rate",
    (
        "f\"a snapshot of {len(notes['state'])} parameters, and {len(optimizer.parameters)} are here\"",
        "f\"{len(notes['state'])} parameters\"",
    ),
    ('optimizer.lr = notes["lr"]', ""),
    says=["rate, tensors and numbers come back"],
)
wrong(
    "keeps what was there",
    (
        "f\"a snapshot of {len(notes['state'])} parameters, and {len(optimizer.parameters)} are here\"",
        "f\"{len(notes['state'])} parameters\"",
    ),
    (
        'optimizer.state = copy.deepcopy(notes["state"])',
        """
        for mine, saved in zip(optimizer.state, notes["state"]):
            mine.update(copy.deepcopy(saved))
        """,
    ),
    says=["rate, tensors and numbers come back"],
)
wrong(
    "refuses too late",
    """
    def snapshot(optimizer):
        return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


    def restore(optimizer, notes):
        optimizer.lr = notes["lr"]
        if len(notes["state"]) != len(optimizer.parameters):
            raise ValueError(f"{len(notes['state'])} parameters")
        optimizer.state = copy.deepcopy(notes["state"])
    """,
    says=["compare first, and set afterwards"],
)
wrong(
    "restore does not copy",
    (
        "f\"a snapshot of {len(notes['state'])} parameters, and {len(optimizer.parameters)} are here\"",
        "f\"{len(notes['state'])} parameters\"",
    ),
    ('copy.deepcopy(notes["state"])', 'notes["state"]'),
    says=["restore must copy too"],
)
wrong(
    "sets the state before it compares",
    """
    def snapshot(optimizer):
        return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


    def restore(optimizer, notes):
        optimizer.state = copy.deepcopy(notes["state"])
        if len(optimizer.state) != len(optimizer.parameters):
            raise ValueError(f"{len(optimizer.state)} parameters")
        optimizer.lr = notes["lr"]
    """,
    says=["compare before you set either"],
)
wrong(
    "snapshot copies only the dicts",
    ("copy.deepcopy(optimizer.state)", "[dict(each) for each in optimizer.state]"),
    (
        "f\"a snapshot of {len(notes['state'])} parameters, and {len(optimizer.parameters)} are here\"",
        "f\"{len(notes['state'])} parameters\"",
    ),
    says=["is every tensor copied?"],
)
wrong(
    "snapshot is no copy",
    ("copy.deepcopy(optimizer.state)", "optimizer.state"),
    (
        "f\"a snapshot of {len(notes['state'])} parameters, and {len(optimizer.parameters)} are here\"",
        "f\"{len(notes['state'])} parameters\"",
    ),
    says=["is every tensor copied?"],
)
wrong(
    "takes any snapshot",
    """
    def snapshot(optimizer):
        return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


    def restore(optimizer, notes):
        optimizer.lr = notes["lr"]
        optimizer.state = copy.deepcopy(notes["state"])
    """,
    says=["a ValueError that names the 3 parameters"],
)
right(
    "through bytes",
    """
    import io


    def snapshot(optimizer):
        file = io.BytesIO()
        torch.save([optimizer.lr, optimizer.state], file)
        return {"parameters": len(optimizer.state), "bytes": file.getvalue()}


    def restore(optimizer, notes):
        if notes["parameters"] != len(optimizer.parameters):
            raise ValueError(f"the snapshot holds {notes['parameters']} parameters")
        optimizer.lr, optimizer.state = torch.load(io.BytesIO(notes["bytes"]), weights_only=True)
    """,
)

wrong(
    "refuses only what is longer",
    ('len(notes["state"]) != len(optimizer.parameters)', 'len(notes["state"]) > len(optimizer.parameters)'),
    says=["a ValueError that names the 1 parameter of"],
)
wrong(
    "copies only the names of Averaging",
    (
        "copy.deepcopy(optimizer.state)",
        '[{name: copy.deepcopy(each[name]) for name in ("sum", "weight") if name in each} for each in optimizer.state]',
    ),
    says=["copy whatever the state holds"],
)

# Task 8 · The loop that holds them

wrong, right = LAB.task("train")

wrong(
    "clips after the step",
    ('history = {"loss": [], "norm": [], "lr": []}', "losses, norms, rates = [], [], []"),
    ("loss.backward()", "loss.backward()\noptimizer.step()"),
    (
        """
        optimizer.step()
        for name, value in (("loss", loss.item()), ("norm", float(norm)), ("lr", optimizer.lr)):
            history[name].append(value)
        """,
        """
        losses.append(loss.item())
        norms.append(float(norm))
        rates.append(optimizer.lr)
        """,
    ),
    ("return history", 'return {"loss": losses, "norm": norms, "lr": rates}'),
    says=["clip between backward and step"],
)
wrong(
    "notes tensors",
    ('history = {"loss": [], "norm": [], "lr": []}', 'notes = {"loss": [], "norm": [], "lr": []}'),
    (
        '(("loss", loss.item()), ("norm", float(norm)), ("lr", optimizer.lr))',
        "zip(notes, (loss, norm, optimizer.lr), strict=True)",
    ),
    ("history[name]", "notes[name]"),
    ("return history", "return notes"),
    says=["keeps the graph of its step alive"],
)

another_way = """
def train(model, optimizer, x, y, peak, warmup, steps, floor, max_norm, first=0, stop=None):
    losses, norms, rates = [], [], []
    for t in range(first, steps if stop is None else stop):
        optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = clip_gradients(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss.item())
        norms.append(float(norm))
        rates.append(optimizer.lr)
    return {"loss": losses, "norm": norms, "lr": rates}
"""

wrong(
    "makes first more steps",
    ("steps if stop is None else stop", "first + steps if stop is None else stop"),
    of=another_way,
    says=["t = first"],
)
wrong(
    "multiplies the rate it finds",
    (
        "optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)",
        "optimizer.lr *= warmup_cosine(t, warmup, steps, floor)",
    ),
    of=another_way,
    says=["from the peak, not from optimizer.lr"],
)
wrong("never zeroes", ("optimizer.zero_grad()", ""), of=another_way, says=["zero before backward"])
wrong(
    "notes the norm after clipping",
    ("float(norm)", "min(float(norm), max_norm)"),
    of=another_way,
    says=["note loss and norm as they were before"],
)
wrong(
    "plans only its part",
    (
        """
        losses, norms, rates = [], [], []
        for t in range(first, steps if stop is None else stop):
        """,
        """
        stop = steps if stop is None else stop
        losses, norms, rates = [], [], []
        for t in range(first, stop):
        """,
    ),
    ("warmup_cosine(t, warmup, steps, floor)", "warmup_cosine(t, warmup, stop, floor)"),
    of=another_way,
    says=["the schedule is that of the whole plan"],
)
wrong(
    "rate after the step",
    ("optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)", ""),
    ("optimizer.step()", "optimizer.step()\noptimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)"),
    of=another_way,
    says=["set the rate before the step"],
)
wrong(
    "schedule begins anew",
    ("warmup_cosine(t, warmup, steps, floor)", "warmup_cosine(t - first, warmup, steps, floor)"),
    of=another_way,
    says=["the schedule is that of the whole plan"],
)
wrong(
    "sums the errors",
    ("F.mse_loss(model(x), y)", "((model(x) - y) ** 2).sum()"),
    of=another_way,
    says=["the mean squared error of the weights as they were given"],
)
wrong(
    "zeroes before the step",
    ("optimizer.zero_grad()", ""),
    ("optimizer.step()", "optimizer.zero_grad()\noptimizer.step()"),
    of=another_way,
    says=["zero before backward"],
)
wrong(
    "zeroes only afterwards",
    ("optimizer.zero_grad()", ""),
    ("optimizer.step()", "optimizer.step()\noptimizer.zero_grad()"),
    of=another_way,
    says=["zero them before backward"],
)
wrong(
    "stop of 0 taken for none",
    ("steps if stop is None else stop", "stop or steps"),
    of=another_way,
    says=["stop = 0", "is None"],
)
wrong(
    "makes stop steps",
    ("steps if stop is None else stop", "steps if stop is None else first + stop"),
    of=another_way,
    says=["stop − 1"],
)
right(
    "zeroes at both ends",
    ("losses, norms, rates = [], [], []", "optimizer.zero_grad()\nlosses, norms, rates = [], [], []"),
    ("optimizer.zero_grad()\nloss = F.mse_loss(model(x), y)", "loss = (model(x) - y).square().mean()"),
    ("optimizer.step()", "optimizer.step()\noptimizer.zero_grad()"),
    of=another_way,
)
wrong(
    "torch's clip",
    (
        "clip_gradients(model.parameters(), max_norm)",
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
    ),
    of=another_way,
    says=["torch.nn.utils.clip_grad", "call your own functions"],
)
