# replaces: code-parameters
# caught by: check-parameters
# says: expected: 106
# says: got:      80


def gpt_parameters(layers, width, vocabulary, context):
    return 12 * layers * width**2 + (vocabulary + context + 2) * width
