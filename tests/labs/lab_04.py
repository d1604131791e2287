"""Lab 04 · An engine from scratch, and the same by hand: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("04_micrograd_and_numpy")


# Task 1 · Numbers that remember

wrong, right = LAB.task("value")

wrong(
    "log slope at the result",
    ("1 / self.data", "1 / math.log(self.data)"),
    says=["a.log()", "at the number that went in"],
)
wrong(
    "pair without its tuple",
    ("((self, 1.0),)", "((self, 1.0))"),
    says=["result = a + 3", "cannot unpack", "a tuple of one pair is (pair,)"],
)
wrong(
    "plain numbers forgotten",
    (
        """
        if isinstance(other, Value):
            return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))
        return Value(self.data + other, ((self, 1.0),))
        """,
        "return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))",
    ),
    says=["AttributeError", "result = a + 3", "no attribute 'data'", "isinstance(other, Value)"],
)
wrong("power keeps its exponent", ("self.data ** (n - 1)", "self.data ** (n)"), says=["a ** 3", "n * x ** (n - 1)"])
wrong(
    "product slopes swapped",
    ("((self, other.data), (other, self.data))", "((self, self.data), (other, other.data))"),
    says=["result = a * b", "b's number"],
)
wrong(
    "relu changes its input",
    (
        "return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))",
        """
        slope = 1.0 if self.data > 0 else 0.0
        self.data = max(0.0, self.data) + 0.0
        return Value(self.data, ((self, slope),))
        """,
    ),
    says=["never changes"],
)
wrong("relu slope at 0 is 1", ("self.data > 0", "self.data >= 0"), says=["with x = 0.0", "at 0, it is 0"])
wrong(
    "without parents",
    ("Value(result, ((self, result),))", "Value(result)"),
    says=["result = a.exp()", "exp is its own derivative"],
)
right(
    "lifts plain numbers",
    (
        """
        if isinstance(other, Value):
            return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))
        return Value(self.data + other, ((self, 1.0),))
        """,
        """
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, [(self, 1), (other, 1)])
        """,
    ),
    (
        """
        if isinstance(other, Value):
            return Value(self.data * other.data, ((self, other.data), (other, self.data)))
        return Value(self.data * other, ((self, other),))
        """,
        """
        other = other if isinstance(other, Value) else Value(other)
        if other is self:
            return Value(self.data**2, [(self, 2 * self.data)])
        return Value(self.data * other.data, [(self, other.data), (other, self.data)])
        """,
    ),
    (
        "return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))",
        "return Value(self.data * (self.data > 0), ((self, self.data > 0),))",
    ),
)

# Task 2 · Users first

wrong, right = LAB.task("order")

wrong(
    "by breadth",
    """
    def users_first(last):
        order, seen = [last], {last}
        for value in order:
            for parent, _ in value.parents:
                if parent not in seen:
                    seen.add(parent)
                    order.append(parent)
        return order
    """,
    says=["the long way and the short way", "before one of its users"],
)
wrong(
    "by recursion",
    """
    def users_first(last):
        order, seen = [], set()

        def visit(value):
            if value not in seen:
                seen.add(value)
                for parent, _ in value.parents:
                    visit(parent)
                order.append(value)

        visit(last)
        return order[::-1]
    """,
    says=["RecursionError", "keep a list of your own"],
)
wrong(
    "depth first from the top",
    """
    def users_first(last):
        order, seen, todo = [], set(), [last]
        while todo:
            value = todo.pop()
            if value not in seen:
                seen.add(value)
                order.append(value)
                todo += [parent for parent, _ in value.parents]
        return order
    """,
    says=["expected: [12.0, 10.0]", "they must wait"],
)
wrong(
    "once for each path",
    """
    def users_first(last):
        order = [last]
        for value in order:
            order += [parent for parent, _ in value.parents]
        return order
    """,
    says=["a square", "each value once"],
)
right(
    "by the longest way",
    '''
    import collections


    def users_first(last):
        """Sorted by the length of the longest way down to a value without parents, found by counting upwards."""
        users, waiting, todo = collections.defaultdict(list), {last: len(last.parents)}, [last]
        while todo:
            for parent, _ in (value := todo.pop()).parents:
                users[parent].append(value)
                if parent not in waiting:
                    waiting[parent] = len(parent.parents)
                    todo.append(parent)
        height = {value: 0 for value, count in waiting.items() if count == 0}
        todo = list(height)
        while todo:
            value = todo.pop()
            for user in users[value]:
                height[user] = max(height.get(user, 0), height[value] + 1)
                waiting[user] -= 1
                if waiting[user] == 0:
                    todo.append(user)
        return sorted(height, key=height.get, reverse=True)
    ''',
)

another_way = """
def users_first(last):
    order, seen, todo = [], set(), [(last, False)]
    while todo:
        value, done = todo.pop()
        if done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            todo.append((value, True))
            todo += [(parent, False) for parent, _ in value.parents]
    return order[::-1]
"""

right("depth first with a stack", another_way)
wrong(
    "parents first",
    ("id(value) not in seen", "value not in seen"),
    ("seen.add(id(value))", "seen.add(value)"),
    ("order[::-1]", "order"),
    of=another_way,
    says=["[12.0, 10.0]", "d is the first"],
)
wrong(
    "seen by its number",
    ("id(value) not in seen", "value.data not in seen"),
    ("seen.add(id(value))", "seen.add(value.data)"),
    of=another_way,
    says=["itself and not its number"],
)
wrong(
    "seen in a list",
    ("order, seen, todo = [], set(),", "order, seen, todo = [], [],"),
    ("id(value) not in seen", "value not in seen"),
    ("seen.add(id(value))", "seen.append(value)"),
    of=another_way,
    says=["at most 4,000 comparisons", "keep what you have seen in a set"],
)
wrong(
    "recursion with another limit",
    """
    import sys


    def users_first(last):
        sys.setrecursionlimit(10**6)
        order, seen = [], set()

        def visit(value):
            if value not in seen:
                seen.add(value)
                for parent, _ in value.parents:
                    visit(parent)
                order.append(value)

        visit(last)
        return order[::-1]
    """,
    says=["RecursionError", "that limit stays as it is"],
)
wrong(
    "level by level",
    """
    def users_first(last):
        order, level = {}, [last]
        while level:
            for value in level:
                order.pop(value, None)
                order[value] = None
            level = [parent for value in level for parent, _ in value.parents]
        return list(order)
    """,
    says=["at most 130 times", "once for each path to it"],
)

# Task 3 · Backward

wrong, right = LAB.task("backward")

wrong(
    "as small engines do it",
    """
    def backward(last):
        last.grad = 1.0
        for value in users_first(last):
            for parent, slope in value.parents:
                parent.grad += slope * value.grad
    """,
    says=["expected: [2.0, 36.0, 216.0]", "got:      [1.0, 36.0, 324.0]", "arrived in this call"],
)
wrong(
    "by recursion",
    """
    def backward(last, gradient=1.0):
        last.grad += gradient
        for parent, slope in last.parents:
            backward(parent, slope * gradient)
    """,
    says=["RecursionError", "in a loop"],
)
wrong(
    "clears before",
    """
    def backward(last):
        order = users_first(last)
        for value in order:
            value.grad = 0.0
        last.grad = 1.0
        for value in order:
            for parent, slope in value.parents:
                parent.grad += slope * value.grad
    """,
    says=["expected: 12.0", "got:      6.0", "adds to the .grad"],
)
wrong(
    "forgets last itself",
    """
    def backward(last):
        arrived = dict.fromkeys(users_first(last), 0.0)
        arrived[last] = 1.0
        for value in arrived:
            for parent, slope in value.parents:
                arrived[parent] += slope * arrived[value]
                parent.grad += slope * arrived[value]
    """,
    says=["[1.0, 18.0, 108.0]"],
)
wrong(
    "hands on the old gradient",
    """
    def backward(last):
        last.grad += 1.0
        for value in users_first(last):
            for parent, slope in value.parents:
                parent.grad += slope * value.grad
    """,
    says=["expected: [2.0, 36.0, 216.0]", "got:      [2.0, 54.0, 432.0]", "arrived in this call"],
)
wrong(
    "in the order of discovery",
    """
    def backward(last):
        last.grad, todo, seen = 1.0, [last], {last}
        for value in todo:
            for parent, slope in value.parents:
                parent.grad += slope * value.grad
                if parent not in seen:
                    seen.add(parent)
                    todo.append(parent)
    """,
    says=["[40.0, 24.0, 4.0]", "only after all of its users"],
)
wrong(
    "leaves only",
    (
        "value.grad += gradient",
        """
        if not value.parents:
            value.grad += gradient
        """,
    ),
    says=["[1.0, 18.0, 108.0]"],
)
wrong(
    "overwrites",
    """
    def backward(last):
        last.grad = 1.0
        for value in users_first(last):
            for parent, slope in value.parents:
                parent.grad = slope * value.grad
    """,
    says=["[1.0, 18.0, 108.0]", "add, do not overwrite"],
)
right(
    "pulls from the users",
    '''
    def backward(last):
        """Each value asks its users, instead of being handed something by them."""
        order = users_first(last)
        users = {value: [] for value in order}
        for value in order:
            for parent, slope in value.parents:
                users[parent].append((value, slope))
        arrived = {}
        for value in order:
            arrived[value] = (
                1.0 if value is last else math.fsum(slope * arrived[user] for user, slope in users[value])
            )
            value.grad = value.grad + arrived[value]
    ''',
)
right(
    "saves and adds afterwards",
    """
    def backward(last):
        order = users_first(last)
        before = [value.grad for value in order]
        for value in order:
            value.grad = 0.0
        last.grad = 1.0
        for value in order:
            for parent, slope in value.parents:
                parent.grad += slope * value.grad
        for value, old in zip(order, before):
            value.grad += old
    """,
)
wrong(
    "along every path",
    """
    def backward(last):
        todo = [(last, 1.0)]
        while todo:
            value, gradient = todo.pop()
            value.grad += gradient
            todo += [(parent, slope * gradient) for parent, slope in value.parents]
    """,
    says=["at most 130 times", "each value hands on once"],
)

# Task 4 · Neuron, layer, network

wrong, right = LAB.task("network")

wrong("drops the rest", ("strict=True", "strict=False"), says=["ValueError to be raised", "strict=True"])
wrong(
    "every neuron alike",
    ("Neuron(inputs, rng, relu=place < last)", "Neuron(inputs, random.Random(seed), relu=place < last)"),
    says=["different weights", "stay alike"],
)
wrong(
    "a generator for each layer",
    (
        "[Neuron(inputs, rng, relu=place < last) for _ in range(outputs)]",
        "self.layer(inputs, outputs, seed, place < last)",
    ),
    (
        "def parameters(self) -> list[Value]:",
        """
        def layer(self, inputs, outputs, seed, relu):
            rng = random.Random(seed)
            return [Neuron(inputs, rng, relu) for _ in range(outputs)]

        def parameters(self) -> list[Value]:
        """,
    ),
    says=["in the order of their drawing", "a new one for each layer"],
)
wrong(
    "seeds that count up",
    (
        "[Neuron(inputs, rng, relu=place < last) for _ in range(outputs)]",
        "self.layer(inputs, outputs, seed + place, place < last)",
    ),
    (
        "def parameters(self) -> list[Value]:",
        """
        def layer(self, inputs, outputs, seed, relu):
            rng = random.Random(seed)
            return [Neuron(inputs, rng, relu) for _ in range(outputs)]

        def parameters(self) -> list[Value]:
        """,
    ),
    says=["in the order of their drawing", "a new one for each layer"],
)
wrong("forgets the bias", ("total = self.bias", "total = Value(0.0)"), says=["expected: 2.5", "got:      2.0"])
wrong("ignores the seed", ("random.Random(seed)", "random.Random()"), says=["in the order of their drawing"])
wrong(
    "parameters are copies",
    (
        "[value for layer in self.layers for neuron in layer for value in (*neuron.weights, neuron.bias)]",
        """
        [Value(value.data) for layer in self.layers for neuron in layer for value in (*neuron.weights, neuron.bias)]
        """,
    ),
    says=["the very ones", "no copies"],
)
wrong(
    "parameters without biases",
    ("(*neuron.weights, neuron.bias)", "neuron.weights"),
    says=["['parameters']", "every bias"],
)
wrong(
    "relu everywhere", ("total.relu() if self.relu else total", "total.relu()"), says=["expected: -1.5", "only there"]
)
wrong("relu on the logits", ("place < last", "place <= last"), says=["relu in all but the last"])
right(
    "output first bias last",
    (
        """
        total = self.bias
        for weight, x in zip(self.weights, inputs, strict=True):
            total = total + weight * x
        """,
        """
        if len(inputs) != len(self.weights):
            raise ValueError(f"{len(inputs)} inputs for {len(self.weights)} weights")
        total = sum(x * weight for weight, x in zip(self.weights, inputs)) + self.bias
        """,
    ),
    (
        "[value for layer in self.layers for neuron in layer for value in (*neuron.weights, neuron.bias)]",
        """
        [n.bias for layer in self.layers for n in layer] + [
            w for layer in self.layers for n in layer for w in n.weights
        ]
        """,
    ),
)

# Task 5 · A loss, and training

wrong, right = LAB.task("train")

wrong(
    "new Values",
    (
        "for value in net.parameters():\n    value.data -= rate * value.grad",
        """
        for neuron in itertools.chain(*net.layers):
            neuron.weights = [Value(w.data - rate * w.grad) for w in neuron.weights]
            neuron.bias = Value(neuron.bias.data - rate * neuron.bias.grad)
        """,
    ),
    says=["must stay the same Value"],
)

wrong(
    "forgets to add the largest",
    (
        "sum((logit - largest).exp() for logit in logits).log() + largest",
        "sum((logit - largest).exp() for logit in logits).log()",
    ),
    says=["add it after log"],
)
wrong("forgets to zero", ("value.grad = 0.0", "value.grad += 0.0"), says=["was something left in .grad?"])
wrong(
    "loss of exp alone",
    ("sum((logit - largest).exp() for logit in logits).log() + largest", "sum(logit.exp() for logit in logits).log()"),
    says=["math range error", "subtract the largest"],
)
wrong(
    "losses after the step",
    (
        "loss.data",
        "(sum(example_loss(net(p), y) for p, y in zip(points, labels, strict=True)) * (1 / len(points))).data",
    ),
    says=["before anything moves"],
)
wrong("losses are values", ("loss.data", "loss"), says=["taken before anything moves"])
wrong(
    "makes new values",
    ("value.data -= rate * value.grad", "value = value - rate * value.grad"),
    says=["the first step"],
)
wrong("sum not mean", ("sum(examples) * (1 / len(examples))", "sum(examples)"), says=["the mean over all points"])
wrong("uphill", ("value.data -= rate * value.grad", "value.data += rate * value.grad"), says=["the first step"])
wrong(
    "zeroes after the step",
    (
        """
        for value in net.parameters():
            value.grad = 0.0
        """,
        "",
    ),
    ("value.data -= rate * value.grad", "value.data -= rate * value.grad\nvalue.grad = 0.0"),
    says=["was something left in .grad?"],
)
wrong(
    "zeroes between backward and step",
    """
    def example_loss(logits: list[Value], label: int) -> Value:
        largest = max(logit.data for logit in logits)
        return sum((logit - largest).exp() for logit in logits).log() + largest - logits[label]


    def train(net: MLP, points: list[list[float]], labels: list[int], steps: int, rate: float) -> list[float]:
        losses = []
        for _ in range(steps):
            examples = [example_loss(net(point), label) for point, label in zip(points, labels, strict=True)]
            loss = sum(examples) * (1 / len(examples))
            backward(loss)
            for value in net.parameters():
                value.grad = 0.0
            for value in net.parameters():
                value.data -= rate * value.grad
            losses.append(loss.data)
        return losses
    """,
    says=["the first step"],
)
wrong(
    "zeroes once",
    """
    def example_loss(logits: list[Value], label: int) -> Value:
        largest = max(logit.data for logit in logits)
        return sum((logit - largest).exp() for logit in logits).log() + largest - logits[label]


    def train(net: MLP, points: list[list[float]], labels: list[int], steps: int, rate: float) -> list[float]:
        losses = []
        for value in net.parameters():
            value.grad = 0.0
        for _ in range(steps):
            examples = [example_loss(net(point), label) for point, label in zip(points, labels, strict=True)]
            loss = sum(examples) * (1 / len(examples))
            backward(loss)
            for value in net.parameters():
                value.data -= rate * value.grad
            losses.append(loss.data)
        return losses
    """,
    says=["the second step", "in each step"],
)
right(
    "softplus of differences",
    '''
    def example_loss(logits, label):
        """For each logit the difference to the label's: log of the sum of exp, with the largest taken as a Value."""
        differences = [logit - logits[label] for logit in logits]
        largest = max(differences, key=lambda value: value.data)
        total = Value(0)
        for difference in differences:
            total = total + (difference - largest).exp()
        return largest + total.log()


    def train(net, points, labels, steps, rate):
        """Backward example by example: the gradients of the mean add up in .grad."""
        losses = []
        for _ in range(steps):
            for value in net.parameters():
                value.grad = 0.0
            total = 0.0
            for point, label in zip(points, labels):
                loss = example_loss(net(point), label) / len(points)
                backward(loss)
                total += loss.data
            for value in net.parameters():
                value.data = value.data - rate * value.grad
            losses.append(total)
        return losses
    ''',
)

# Task 6 · ReLU and softmax, whole arrays at once

wrong, right = LAB.task("rows")

wrong(
    "torch's softmax",
    (
        "powers = np.exp(z - z.max(axis=-1, keepdims=True))\nreturn powers / powers.sum(axis=-1, keepdims=True)",
        "return torch.from_numpy(z).softmax(-1).numpy()",
    ),
    says=["torch is what you are held against"],
)

wrong(
    "relu in float64",
    ("np.maximum(x, 0)", "np.maximum(x, np.zeros(x.shape))"),
    says=["'float64'", "float32 in, float32 out"],
)
wrong("relu in place", ("return np.maximum(x, 0)", "x[x < 0] = 0\nreturn x"), says=["[z, g]", "belong to the caller"])
wrong("relu slope at 0", ("np.where(x > 0, g, 0)", "np.where(x >= 0, g, 0)"), says=["so > and not >="])
wrong(
    "softmax always axis 1",
    ("z.max(axis=-1, keepdims=True)", "z.max(axis=min(1, z.ndim - 1), keepdims=True)"),
    ("powers.sum(axis=-1, keepdims=True)", "powers.sum(axis=min(1, z.ndim - 1), keepdims=True)"),
    says=["last axis"],
)
wrong(
    "softmax row by row",
    """
    def relu_forward(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)


    def relu_backward(g: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, g, 0).astype(g.dtype)


    def softmax_forward(z: np.ndarray) -> np.ndarray:
        rows = z.reshape(-1, z.shape[-1])
        powers = [np.exp(row - row.max()) for row in rows]
        return np.stack([each / each.sum() for each in powers]).reshape(z.shape)


    def softmax_backward(g: np.ndarray, p: np.ndarray) -> np.ndarray:
        return p * (g - (g * p).sum(axis=-1, keepdims=True))
    """,
    says=["as many lines of Python in softmax_forward", "whole arrays at once"],
)
wrong(
    "relu number by number",
    ("return np.maximum(x, 0)", "return np.array([max(n, 0) for n in x.ravel()], dtype=x.dtype).reshape(x.shape)"),
    says=["as many lines of Python in relu_forward", "no comprehension"],
)
wrong("softmax backward diagonal only", ("p * (g - along[..., None])", "g * p * (1 - p)"), says=["sum of g * p"])
wrong(
    "softmax down the columns",
    ("z.max(axis=-1, keepdims=True)", "z.max(axis=0, keepdims=True)"),
    ("powers.sum(axis=-1, keepdims=True)", "powers.sum(axis=0, keepdims=True)"),
    says=["axis=-1"],
)
wrong(
    "softmax in place",
    (
        "powers = np.exp(z - z.max(axis=-1, keepdims=True))",
        """
        z -= z.max(axis=-1, keepdims=True)
        powers = np.exp(z)
        """,
    ),
    says=["[z, g]", "belong to the caller"],
)
wrong(
    "softmax one max for all",
    (
        """
        powers = np.exp(z - z.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
        """,
        """
        with np.errstate(all="ignore"):
            powers = np.exp(z - z.max())
            return powers / powers.sum(axis=-1, keepdims=True)
        """,
    ),
    says=["-1000", "of each row"],
)
wrong("softmax without keepdims", ("powers.sum(axis=-1, keepdims=True)", "powers.sum(axis=-1)"), says=["keepdims=True"])
wrong(
    "softmax without max",
    (
        """
        powers = np.exp(z - z.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
        """,
        """
        with np.errstate(all="ignore"):
            powers = np.exp(z)
            return powers / powers.sum(axis=-1, keepdims=True)
        """,
    ),
    says=["1000", "subtract the largest"],
)
right(
    "by other ways",
    '''
    def relu_forward(x):
        return (np.abs(x) + x) / 2


    def relu_backward(g, x):
        out = g.copy()
        out[x <= 0] = 0
        return out


    def softmax_forward(z):
        largest = np.max(z, -1)[..., None]
        return np.exp(z - largest - np.log(np.exp(z - largest).sum(-1)[..., None]))


    def softmax_backward(g, p):
        """With the whole matrix of derivatives."""
        derivatives = p[..., None] * (np.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :])
        return (derivatives @ g[..., None])[..., 0]
    ''',
)

# Task 7 · Cross-entropy, and over what the mean is taken

wrong, right = LAB.task("entropy")

wrong(
    "torch's autograd",
    """
    IGNORE = -100


    def _loss(z, y):
        y = torch.from_numpy(y)
        for label in y[(y != IGNORE) & ((y < 0) | (y >= z.shape[1]))]:
            raise ValueError(f"label {label.item()}")
        if (y == IGNORE).all():
            raise ValueError("no row counts")
        return F.cross_entropy(z, y)


    def cross_entropy_forward(z, y):
        return _loss(torch.from_numpy(z), y).item()


    def cross_entropy_backward(z, y):
        z = torch.from_numpy(z).requires_grad_()
        return torch.autograd.grad(_loss(z, y), z)[0].numpy()
    """,
    says=["torch is what you are held against"],
)

wrong(
    "all ignored is nan",
    (
        "return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]))",
        """
        losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
        with np.errstate(invalid="ignore"):
            return float(losses.sum() / np.float64(len(labels)))
        """,
    ),
    (
        """
        if not len(labels):
            raise ValueError("no row counts: every label is IGNORE")
        """,
        "",
    ),
    says=["a mean over no rows"],
)
wrong(
    "forward in place",
    ("shifted = rows - rows.max(axis=1, keepdims=True)", "z -= z.max(axis=1, keepdims=True)\nshifted = z[y != IGNORE]"),
    says=["[z, y]", "makes a new array"],
)
wrong("backward without 1 over n", ("shares / len(labels)", "shares"), says=["divide by N"])
wrong("counts from the end", ("(labels < 0) | (labels >= z.shape[1])", "labels >= z.shape[1]"), says=["names it"])
wrong(
    "every negative label is ignored",
    ("counted = y != IGNORE", "counted = y >= 0"),
    ("gradient[y != IGNORE]", "gradient[y >= 0]"),
    says=["-100 alone"],
)
wrong(
    "forgets ignore",
    """
    IGNORE = -100


    def cross_entropy_forward(z, y):
        shifted = z - z.max(1, keepdims=True)
        return np.mean(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y])


    def cross_entropy_backward(z, y):
        return (softmax_forward(z) - np.eye(z.shape[1])[y]) / len(y)
    """,
    says=["a row with label -100"],
)
wrong("forward sums", ("np.mean", "np.sum"), says=["take the mean over the rows"])
wrong(
    "log of softmax",
    (
        """
        shifted = rows - rows.max(axis=1, keepdims=True)
        return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]))
        """,
        """
        with np.errstate(divide="ignore"):
            return float(np.mean(-np.log(softmax_forward(rows)[np.arange(len(labels)), labels])))
        """,
    ),
    says=["not the log of softmax"],
)
wrong("mean over all rows", ("shares / len(labels)", "shares / len(y)"), says=["divide by 2, not by 3"])
right(
    "with a mask of weights",
    """
    IGNORE = -100


    def cross_entropy_forward(z, y):
        weight = (y != IGNORE).astype(z.dtype)
        if weight.sum() == 0:
            raise ValueError("all labels are IGNORE")
        bad = [int(label) for label in y if label != IGNORE and not 0 <= label < z.shape[1]]
        if bad:
            raise ValueError(f"no such class: {bad}")
        largest = z.max(1)
        losses = (
            np.log(np.exp(z - largest[:, None]).sum(1))
            + largest
            - z[np.arange(len(y)), np.where(y == IGNORE, 0, y)]
        )
        return (losses * weight).sum() / weight.sum()


    def cross_entropy_backward(z, y):
        cross_entropy_forward(z, y)  # raises
        weight = (y != IGNORE) / (y != IGNORE).sum()
        one_hot = (y[:, None] == np.arange(z.shape[1])).astype(z.dtype)
        return (softmax_forward(z) - one_hot) * weight[:, None]
    """,
)

# Task 8 · The network of task 5, by hand

wrong, right = LAB.task("whole")

wrong(
    "torch's autograd",
    """
    def network_gradients(x, y, W1, b1, W2, b2):
        x, y, *leaves = map(torch.from_numpy, (x, y, W1, b1, W2, b2))
        leaves = [each.clone().requires_grad_() for each in leaves]
        hidden = F.linear(x, leaves[0], leaves[1]).relu()
        loss = F.cross_entropy(F.linear(hidden, leaves[2], leaves[3]), y)
        return loss.item(), [each.numpy() for each in torch.autograd.grad(loss, leaves)]
    """,
    says=["torch is what you are held against"],
)

wrong("bias gradient is a mean", ("to_logits.sum", "to_logits.mean"), says=["db2 differs"])
wrong("bias gradient of each example", ("to_logits.sum(axis=0)", "to_logits"), says=["db2 differs", "expected shape"])
wrong(
    "divides twice",
    ("cross_entropy_backward(logits, y)", "cross_entropy_backward(logits, y) / len(x)"),
    says=["db2 differs"],
)
wrong("first layer sees the hidden", ("to_before.T @ x", "to_before.T @ hidden"), says=["dW1 differs"])
wrong("relu asked of nobody", ("relu_backward(to_logits @ W2, before)", "to_logits @ W2"), says=["db1 differs"])
wrong("weights turned", ("to_logits.T @ hidden", "hidden.T @ to_logits"), says=["dW2 differs", "expected shape"])
right(
    "example by example",
    """
    def network_gradients(x, y, W1, b1, W2, b2):
        logits = np.stack([W2 @ relu_forward(W1 @ one + b1) + b2 for one in x])
        loss, each = cross_entropy_forward(logits, y), cross_entropy_backward(logits, y)
        gradients = [np.zeros_like(parameter) for parameter in (W1, b1, W2, b2)]
        for one, g in zip(x, each):
            hidden = relu_forward(W1 @ one + b1)
            back = relu_backward(W2.T @ g, hidden)
            for total, part in zip(gradients, (np.outer(back, one), back, np.outer(g, hidden), g)):
                total += part
        return loss, gradients
    """,
)
