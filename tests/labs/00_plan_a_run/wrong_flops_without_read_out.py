# replaces: code-flops
# caught by: check-flops
# says: expected: 504
# says: got:      384


def flops_per_token(layers, width, vocabulary, context):
    return 3 * (2 * 12 * layers * width**2 + 4 * layers * context * width)
