# replaces: code-encode
# caught by: check-encode
# says: encode(x, E4M3)
# says: then clamp the rung


def encode(x, form):
    rung = shift_nearest(*ladder(x, form))
    return rung + (x.signbit().long() << (form.bits - 1))
