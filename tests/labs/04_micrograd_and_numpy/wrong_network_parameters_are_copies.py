# replaces: code-network
# caught by: check-network
# says: the very ones
# says: no copies


class Neuron:
    """The weighted sum of its inputs and a bias, all Values; with relu the larger of that and 0."""

    def __init__(self, count: int, rng: random.Random, relu: bool):
        self.weights = [Value(rng.uniform(-1, 1) / math.sqrt(count)) for _ in range(count)]
        self.bias, self.relu = Value(0.0), relu

    def __call__(self, inputs: list) -> Value:
        """The output for a list of numbers or Values. ValueError if there are not as many as weights."""
        total = self.bias
        for weight, x in zip(self.weights, inputs, strict=True):
            total = total + weight * x
        return total.relu() if self.relu else total


class MLP:
    """Layers of neurons; layers: a list of lists of Neurons. ReLU in all but the last layer."""

    def __init__(self, sizes: list[int], seed: int):
        rng, last = random.Random(seed), len(sizes) - 2
        self.layers = [
            [Neuron(inputs, rng, relu=place < last) for _ in range(outputs)]
            for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes))
        ]

    def __call__(self, inputs: list) -> list[Value]:
        """The logits for one example, a list of numbers or Values."""
        for layer in self.layers:
            inputs = [neuron(inputs) for neuron in layer]
        return inputs

    def parameters(self) -> list[Value]:
        """All weights and biases, each once."""
        return [Value(value.data) for layer in self.layers for neuron in layer for value in (*neuron.weights, neuron.bias)]
