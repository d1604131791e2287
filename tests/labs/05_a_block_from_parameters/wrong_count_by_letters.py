# replaces: code-count
# caught by: check-count
# says: compare the words between the dots

PARTS = {
    "tokens": "embedding",
    "positions": "positions",
    "attention": "attention",
    "up": "ffn",
    "down": "ffn",
    "norm": "norms",
}


def formula(vocabulary, context, width, layers):
    return {
        "embedding": vocabulary * width,
        "positions": context * width,
        "attention": layers * (4 * width**2 + 4 * width),
        "ffn": layers * (8 * width**2 + 5 * width),
        "norms": layers * 4 * width + 2 * width,
    }


def counted(model):
    found = dict.fromkeys(PARTS.values(), 0)
    for name, p in model.named_parameters():
        for letters, part in PARTS.items():
            if letters in name:
                found[part] += p.numel()
                break
        else:
            raise ValueError(f"{name} belongs to no part")
    return found
