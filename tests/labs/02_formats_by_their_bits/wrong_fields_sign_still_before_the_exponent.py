# replaces: code-fields
# caught by: check-fields
# says: got:      (int64 tensor (1,) of [1], int64 tensor (1,) of [49]
# says: 1 10001 1010000000


def fields(codes, form):
    return codes >> (form.bits - 1), codes >> form.mantissa, codes % 2**form.mantissa
