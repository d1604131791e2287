# replaces: code-flops


def flops_per_token(layers, width, vocabulary, context):
    no_matrix = 13 * layers * width + (context + 2) * width
    matrices = gpt_parameters(layers, width, vocabulary, context) - no_matrix
    return 6 * matrices + 12 * layers * width * context
