# replaces: code-fields
# caught by: check-fields
# says: expected 17, got 2
# says: keeps its bias


def fields(codes, form):
    exponent = (codes >> form.mantissa) % 2**form.exponent - form.bias
    return codes >> (form.bits - 1), exponent, codes % 2**form.mantissa
