# replaces: code-flops
# caught by: check-flops
# says: expected: 504
# says: got:      408
# says: 32 for attention


def flops_per_token(layers, width, vocabulary, context):
    return 6 * (12 * layers * width**2 + vocabulary * width)
