# replaces: code-heads
# caught by: check-heads
# says: merge_heads(x)
# says: merging undoes splitting


def split_heads(x, heads):
    return rearrange(x, "b t (h d) -> b h t d", h=heads)


def merge_heads(x):
    return rearrange(x, "b h t d -> b t (d h)")
