"""Words that the course once had of its own for things that have a name: they may not return."""

import re

NAMES = {  # what was said → what the field says
    r"texts of \d|\d texts\b": "sequences",
    r"token tables?": "embedding matrix",
    r"read-?outs?": "LM head",
    r"shares? of (the )?attention|attention shares?": "attention weights",
    r"shar(e|es|ed|ing) out": "shard",
    r"claimed bytes|bytes claimed": "nominal bytes",
    r"feed-forward parts?": "MLP",
    r"batch mates?": "other examples in the batch",
    r"(want|ask)(s|ed|ing)?( for)? (a )?gradients?": "require gradients",
    r"dearer": "more expensive",
    r"keep(s|ing)? (the )?books": "counting scalar",
    r"(half a|one|a) step of (float|bf16|bfloat16|fp16|fp32)\w*|steps? between floats?": "spacing",
    r"one reads (that|it)": "say who says it",
    r"in silence": "silently",
    r"by heart": "memorise",
}
FOUND = re.compile("|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(NAMES)), re.IGNORECASE)


def strangers(text: str) -> list[tuple[str, str]]:
    """(what stands in the text, what the field says) for each of them."""
    names = list(NAMES.values())
    return [(found[0], names[int(found.lastgroup[1:])]) for found in FOUND.finditer(text)]
