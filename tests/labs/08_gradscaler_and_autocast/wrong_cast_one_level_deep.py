# replaces: code-cast
# caught by: check-cast
# says: wherever they are


def cast(value, dtype: torch.dtype, convert=Tensor.to):
    if isinstance(value, Tensor):
        return convert(value, dtype) if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, list | tuple):
        return type(value)(
            convert(part, dtype)
            if isinstance(part, Tensor) and part.is_floating_point() and part.dtype != torch.float64
            else part
            for part in value
        )
    if isinstance(value, dict):
        return {key: cast(part, dtype, convert) for key, part in value.items()}
    return value
