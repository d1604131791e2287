# replaces: code-recipe
# caught by: check-recipe
# says: the last layer is


def my_layers():
    return [
        ("conv", 16, 5, 2, 2),
        ("relu",),
        ("conv", 32, 3, 2, 1),
        ("relu",),
        ("flatten",),
        ("linear", 128),
        ("relu",),
        ("linear", 9),
    ]


def my_stages():
    return [(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]
