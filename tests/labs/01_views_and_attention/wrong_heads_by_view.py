# replaces: code-heads
# caught by: check-heads
# says: split_heads(x, heads)
# says: with heads = 2
# says: values differ


def split_heads(x, heads):
    B, T, C = x.shape
    return x.view(B, heads, T, C // heads)


def merge_heads(x):
    B, H, T, D = x.shape
    return x.transpose(1, 2).reshape(B, T, H * D)
