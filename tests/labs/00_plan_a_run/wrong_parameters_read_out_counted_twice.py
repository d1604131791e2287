# replaces: code-parameters
# caught by: check-parameters
# says: expected: 106
# says: got:      126


def gpt_parameters(layers, width, vocabulary, context):
    layer = 12 * width**2 + 13 * width
    return layers * layer + (2 * vocabulary + context + 2) * width
