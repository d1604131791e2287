# replaces: code-parameters
# caught by: check-parameters
# says: expected: 106
# says: got:      102


def gpt_parameters(layers, width, vocabulary, context):
    return layers * (12 * width**2 + 11 * width) + (vocabulary + context + 2) * width
