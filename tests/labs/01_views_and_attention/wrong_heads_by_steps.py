# replaces: code-heads
# caught by: check-heads
# says: split_heads(x, heads)
# says: with heads = 2
# says: the right name moves fastest


def split_heads(x, heads):
    return rearrange(x, "b t (d h) -> b h t d", h=heads)


def merge_heads(x):
    return rearrange(x, "b h t d -> b t (d h)")
