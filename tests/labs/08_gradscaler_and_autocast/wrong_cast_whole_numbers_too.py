# replaces: code-cast
# caught by: check-cast
# says: floating tensors but float64


def cast(value, dtype: torch.dtype, convert=Tensor.to):
    if isinstance(value, Tensor):
        return convert(value, dtype)
    if isinstance(value, list | tuple):
        return type(value)((cast(part, dtype, convert) for part in value))
    if isinstance(value, dict):
        return {key: cast(part, dtype, convert) for key, part in value.items()}
    return value
