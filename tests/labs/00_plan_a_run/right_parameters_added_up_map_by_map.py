# replaces: code-parameters


def gpt_parameters(layers, width, vocabulary, context):
    def linear(inputs, outputs):
        return inputs * outputs + outputs

    norm = 2 * width
    layer = norm + 4 * linear(width, width) + norm + linear(width, 4 * width) + linear(4 * width, width)
    return vocabulary * width + context * width + sum(layer for _ in range(layers)) + norm
