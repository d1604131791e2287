# replaces: code-flops
# caught by: check-flops
# says: expected: 504
# says: got:      636


def flops_per_token(layers, width, vocabulary, context):
    return 6 * gpt_parameters(layers, width, vocabulary, context)
