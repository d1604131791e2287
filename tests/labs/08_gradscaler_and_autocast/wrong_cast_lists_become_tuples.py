# replaces: code-cast
# caught by: check-cast
# says: a list of a list


def cast(value, dtype: torch.dtype, convert=Tensor.to):
    if isinstance(value, Tensor):
        return convert(value, dtype) if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, list | tuple):
        return tuple((cast(part, dtype, convert) for part in value))
    if isinstance(value, dict):
        return {key: cast(part, dtype, convert) for key, part in value.items()}
    return value
