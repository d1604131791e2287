# replaces: code-freeze


import copy


def freeze(model, example, file, ranges):
    found = {}
    for tensor, free in zip(example, ranges):
        for axis, (name, least, most) in free.items():
            found.setdefault(name, set()).add((tensor.shape[axis], least, most))
    for name, kinds in found.items():
        if len(kinds) > 1:
            raise ValueError(f"{name} has more than one size")
        ((size, least, most),) = kinds
        if size in (0, 1) or size < least or size > most:
            raise ValueError(f"{name}: {size}")
    dims = {name: Dim(name, min=least, max=most) for name, ((_, least, most),) in found.items()}
    shapes = [{axis: dims[triple[0]] for axis, triple in free.items()} for free in ranges]
    torch.export.save(torch.export.export(copy.deepcopy(model).eval(), example, dynamic_shapes=shapes), file)
