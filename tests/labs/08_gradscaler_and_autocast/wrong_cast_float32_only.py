# replaces: code-cast
# caught by: check-cast
# says: float32, float16 and bfloat16 become


def cast(value, dtype: torch.dtype, convert=Tensor.to):
    if isinstance(value, Tensor):
        return convert(value, dtype) if value.dtype == torch.float32 else value
    if isinstance(value, list | tuple):
        return type(value)((cast(part, dtype, convert) for part in value))
    if isinstance(value, dict):
        return {key: cast(part, dtype, convert) for key, part in value.items()}
    return value
