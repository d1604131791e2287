# replaces: code-cast


def cast(value, dtype, convert=Tensor.to):
    match value:
        case Tensor(dtype=torch.float32 | torch.float16 | torch.bfloat16):
            return convert(value, dtype)
        case dict():
            return dict(zip(value, cast(list(value.values()), dtype, convert)))
        case tuple():
            return tuple(cast(list(value), dtype, convert))
        case list():
            return [cast(each, dtype, convert) for each in value]
    return value
