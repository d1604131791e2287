# replaces: code-fields
# caught by: check-fields
# says: expected 1, got -1
# says: the sign is 0 or 1


def fields(codes, form):
    sign = torch.where(codes >= 2 ** (form.bits - 1), -1, 1)
    return sign, codes // 2**form.mantissa % 2**form.exponent, codes % 2**form.mantissa
