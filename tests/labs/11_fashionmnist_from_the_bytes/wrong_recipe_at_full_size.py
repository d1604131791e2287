# replaces: code-recipe
# caught by: check-recipe
# says: halve the picture earlier


def my_layers():
    return [
        ("conv", 16, 5, 1, 2),
        ("relu",),
        ("pool", 2),
        ("conv", 32, 3, 2, 1),
        ("relu",),
        ("flatten",),
        ("linear", 128),
        ("relu",),
        ("linear", 10),
    ]


def my_stages():
    return [(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]
