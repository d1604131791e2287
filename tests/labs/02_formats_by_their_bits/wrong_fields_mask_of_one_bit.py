# replaces: code-fields
# caught by: check-fields
# says: next:     1 10001 1010000000


def fields(codes, form):
    return codes >> (form.bits - 1), (codes >> form.mantissa) & 2**form.exponent, codes & 2**form.mantissa
