# replaces: code-recipe
# caught by: check-recipe
# says: flatten


def my_layers() -> list[tuple]:
    """The layers of your network, from (1, 28, 28) to (10,)."""
    return [
        ("conv", 16, 5, 2, 2),
        ("relu",),
        ("conv", 32, 3, 2, 1),
        ("relu",),
        ("linear", 128),
        ("relu",),
        ("linear", 10),
    ]


def my_stages() -> list[tuple[int, float]]:
    """One to five stages of one epoch, each (batch size, rate)."""
    return [(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]
