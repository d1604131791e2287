# replaces: code-freeze
# caught by: check-freeze
# says: no file that can be loaded and called


def freeze(model: nn.Module, example: tuple, file, ranges: tuple) -> None:
    """Export the model in evaluation mode, with the axes of `ranges` free, and save the program to `file`.

    ranges: for each tensor of the example {axis: (name, least, most)}. ValueError, with the name, for a special example.
    """
    dims, sizes = {}, {}
    for tensor, free in zip(example, ranges, strict=True):
        for axis, (name, least, most) in free.items():
            size = tensor.shape[axis]
            if size < 2 or not least <= size <= most:
                raise ValueError(f"{name} is {size} in the example: at least 2, and from {least} to {most}")
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"{name} is {sizes[name]} and {size} in the example: one name, one size")
            dims.setdefault(name, Dim(name, min=least, max=most))
    shapes = tuple({axis: dims[name] for axis, (name, _, _) in free.items()} for free in ranges)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        program = torch.export.export(model, example, dynamic_shapes=shapes)
    finally:
        for module, training in modes:
            module.training = training
    torch.save(model.state_dict(), file)
