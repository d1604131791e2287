# replaces: code-encode


def encode(x, form):
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa + 1 if form.infinities else last - 1
    rungs = torch.arange(end + 1, device=x.device)
    numbers = magnitude(rungs >> form.mantissa, rungs % 2**form.mantissa, form)
    size = x.double().abs().nan_to_num(0, posinf=1e300).contiguous()
    below = (torch.searchsorted(numbers, size, right=True) - 1).clamp(0, end - 1)
    down, up = size - numbers[below], numbers[below + 1] - size
    rung = below + ((up < down) | ((up == down) & (below % 2 == 1)))
    return torch.where(x.isnan(), last, rung) + (x.signbit().long() << (form.bits - 1))
