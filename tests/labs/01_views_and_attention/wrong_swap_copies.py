# replaces: code-swap
# caught by: check-swap
# says: same_storage
# says: this is a copy


def swapped(x, a, b):
    return x.transpose(a, b).contiguous() if a != b else x.clone()
