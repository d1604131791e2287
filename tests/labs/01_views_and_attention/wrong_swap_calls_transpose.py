# replaces: code-swap
# caught by: check-swap
# says: expected: ['as_strided']
# says: got:      ['transpose']
# says: as_strided alone


def swapped(x, a, b):
    return x.transpose(a, b)
