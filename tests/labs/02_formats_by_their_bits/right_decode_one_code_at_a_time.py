# replaces: code-decode


def decode(codes, form):
    def one(code):
        sign = -1.0 if code >> (form.bits - 1) else 1.0
        exponent, mantissa = code >> form.mantissa & 2**form.exponent - 1, code & 2**form.mantissa - 1
        if exponent == 2**form.exponent - 1 and (form.infinities or mantissa == 2**form.mantissa - 1):
            return math.nan if mantissa else sign * math.inf
        hidden = 2**form.mantissa if exponent else 0
        return sign * math.ldexp(hidden + mantissa, max(exponent, 1) - form.bias - form.mantissa)

    numbers = [one(code) for code in codes.flatten().tolist()]
    return torch.tensor(numbers, dtype=torch.float64, device=codes.device).view(codes.shape)
