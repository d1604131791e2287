# replaces: code-flops
# caught by: check-flops
# says: expected: 504
# says: got:      168
# says: times 3


def flops_per_token(layers, width, vocabulary, context):
    return 2 * (12 * layers * width**2 + vocabulary * width) + 4 * layers * context * width
