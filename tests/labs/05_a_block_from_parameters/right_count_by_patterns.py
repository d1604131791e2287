# replaces: code-count


import re

PATTERNS = {
    "embedding": r"tokens",
    "positions": r"positions",
    "attention": r"blocks\.\d+\.attention\..*",
    "ffn": r"blocks\.\d+\.(up|down)\..*",
    "norms": r"(blocks\.\d+\.norm_[12]|norm)\..*",
}


def formula(vocabulary, context, width, layers):
    def linear(inputs, outputs):
        return (inputs + 1) * outputs

    return dict(
        norms=(2 * layers + 1) * 2 * width,
        ffn=layers * (linear(width, 4 * width) + linear(4 * width, width)),
        attention=layers * (linear(width, 3 * width) + linear(width, width)),
        positions=context * width,
        embedding=vocabulary * width,
    )


def counted(model):
    left = {name: math.prod(p.shape) for name, p in model.named_parameters()}
    result = {}
    for part, pattern in PATTERNS.items():
        result[part] = sum(left.pop(name) for name in list(left) if re.fullmatch(pattern, name))
    if left:
        raise ValueError(f"in no part: {', '.join(left)}")
    return result
