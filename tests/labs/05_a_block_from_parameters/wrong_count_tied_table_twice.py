# replaces: code-count
# caught by: check-count
# says: 'embedding'


def formula(vocabulary: int, context: int, width: int, layers: int) -> dict[str, int]:
    return {
        "embedding": 2 * vocabulary * width,
        "positions": context * width,
        "attention": layers * (4 * width**2 + 4 * width),
        "ffn": layers * (8 * width**2 + 5 * width),
        "norms": layers * 4 * width + 2 * width,
    }


def counted(model: nn.Module) -> dict[str, int]:
    part_of = {"tokens": "embedding", "positions": "positions", "attention": "attention", "up": "ffn", "down": "ffn"}
    part_of |= dict.fromkeys(("norm_1", "norm_2", "norm"), "norms")
    counts = dict.fromkeys(part_of.values(), 0)
    for name, p in model.named_parameters():
        words = [word for word in name.split(".") if word in part_of]
        if not words:
            raise ValueError(f"{name} belongs to no part of the model")
        counts[part_of[words[0]]] += p.numel()
    return counts
