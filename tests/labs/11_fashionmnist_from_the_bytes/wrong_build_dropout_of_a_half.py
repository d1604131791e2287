# replaces: code-build
# caught by: check-build
# says: nn.Dropout(p)


def build(layers: list[tuple], shape: tuple[int, ...]) -> nn.Sequential:
    """The network of the list `layers` for inputs (N, *shape): one module a layer, with torch's initial weights."""
    makers = {
        "conv": nn.Conv2d,
        "linear": nn.Linear,
        "pool": nn.MaxPool2d,
        "dropout": lambda p: nn.Dropout(),
        "relu": nn.ReLU,
        "flatten": nn.Flatten,
    }
    modules, entering = [], shape
    for (kind, *numbers), (leaving, _, _) in zip(layers, plan(layers, shape), strict=True):
        first = [entering[0]] if kind in ("conv", "linear") else []
        modules.append(makers[kind](*first, *numbers))
        entering = leaving
    return nn.Sequential(*modules)
