# replaces: code-parameters
# caught by: check-parameters
# says: expected: 106
# says: got:      102
# says: last norm 4


def gpt_parameters(layers, width, vocabulary, context):
    return layers * (12 * width**2 + 13 * width) + (vocabulary + context) * width
