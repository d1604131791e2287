# replaces: code-strides


def contiguous_strides(shape):
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]
