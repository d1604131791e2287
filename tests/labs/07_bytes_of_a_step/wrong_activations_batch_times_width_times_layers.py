# replaces: code-activations
# caught by: check-activations
# says: by hand: 40 for the input


def kept_by_mlp(sizes, batch, activation="relu", trained=None):
    return 4 * batch * sum(sizes[1:])
