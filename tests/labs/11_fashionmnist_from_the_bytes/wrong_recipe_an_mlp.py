# replaces: code-recipe
# caught by: check-recipe
# says: begin with convolutions


def my_layers():
    return [("flatten",), ("linear", 256), ("relu",), ("linear", 10)]


def my_stages():
    return [(96, 2e-3)] * 5
