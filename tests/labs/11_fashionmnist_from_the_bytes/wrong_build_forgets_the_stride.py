# replaces: code-build
# caught by: check-build
# says: (stride 2, padding 1)


def build(layers, shape):
    made, shapes = [], [shape, *(out for out, _, _ in plan(layers, shape))]
    for (kind, *n), come in zip(layers, shapes):
        if kind == "conv":
            made.append(nn.Conv2d(come[0], n[0], n[1], padding=n[3]))
        elif kind == "linear":
            made.append(nn.Linear(come[0], n[0]))
        else:
            made.append({"pool": nn.MaxPool2d, "relu": nn.ReLU, "dropout": nn.Dropout, "flatten": nn.Flatten}[kind](*n))
    return nn.Sequential(*made)
