# replaces: code-fields


def fields(codes, form):
    spelled = [spell(code, form).split() for code in codes.flatten().tolist()]
    columns = zip(*[[int(part, 2) for part in parts] for parts in spelled])
    return tuple(torch.tensor(column, device=codes.device).view(codes.shape) for column in columns)
