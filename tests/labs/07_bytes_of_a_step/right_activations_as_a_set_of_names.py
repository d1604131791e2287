# replaces: code-activations


def kept_by_mlp(sizes, batch, activation="relu", trained=None):
    kept, flows = {}, False
    name, width = "x", sizes[0]
    for i, narrow in enumerate(sizes[1:]):
        if trained is None or trained[i]:
            kept[name], flows = 4 * width * batch, True
        width = narrow
        if i == len(sizes) - 2:
            break
        name = f"activation {i}"
        if flows:
            kept[f"linear {i}" if activation == "gelu" else name] = 4 * width * batch
    if flows:
        kept["shares"], kept["targets"], kept["number"] = 4 * width * batch, 8 * batch, 4
    return sum(kept.values())
