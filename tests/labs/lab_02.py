"""Lab 02 · Formats by their bits, and a rounding that is right on average: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("02_formats_by_their_bits")


# Task 1 · Three fields

wrong, right = LAB.task("fields")

wrong(
    "codes in place",
    """
    def fields(codes, form):
        mantissa = codes % 2**form.mantissa
        codes >>= form.mantissa
        exponent = codes % 2**form.exponent
        codes >>= form.exponent
        return codes, exponent, mantissa
    """,
    says=["the codes belong to the caller"],
)

wrong(
    "bias taken off",
    """
    def fields(codes, form):
        exponent = (codes >> form.mantissa) % 2**form.exponent - form.bias
        return codes >> (form.bits - 1), exponent, codes % 2**form.mantissa
    """,
    says=["expected 17, got 2", "keeps its bias"],
)
wrong(
    "mask of one bit",
    """
    def fields(codes, form):
        return codes >> (form.bits - 1), (codes >> form.mantissa) & 2**form.exponent, codes & 2**form.mantissa
    """,
    says=["next:     1 10001 1010000000"],
)
wrong(
    "of fp16 only",
    """
    def fields(codes, form):
        return codes >> 15, (codes >> 10) % 32, codes % 1024
    """,
    says=["fields(codes, TOY)", "take the widths from form"],
)
wrong(
    "sign is minus one",
    """
    def fields(codes, form):
        sign = torch.where(codes >= 2 ** (form.bits - 1), -1, 1)
        return sign, codes // 2**form.mantissa % 2**form.exponent, codes % 2**form.mantissa
    """,
    says=["expected 1, got -1", "the sign is 0 or 1"],
)
wrong(
    "sign still before the exponent",
    """
    def fields(codes, form):
        return codes >> (form.bits - 1), codes >> form.mantissa, codes % 2**form.mantissa
    """,
    says=["got:      (int64 tensor (1,) of [1], int64 tensor (1,) of [49]", "1 10001 1010000000"],
)
right(
    "by division",
    """
    def fields(codes, form):
        rest, mantissa = codes // 2**form.mantissa, codes & ~(-1 << form.mantissa)
        return rest.div(2**form.exponent, rounding_mode="floor"), rest.remainder(2**form.exponent), mantissa
    """,
)
# alone: the 800 updates in task step would take a minute with it
right(
    "from the string",
    """
    def fields(codes, form):
        spelled = [spell(code, form).split() for code in codes.flatten().tolist()]
        columns = zip(*[[int(part, 2) for part in parts] for parts in spelled])
        return tuple(torch.tensor(column, device=codes.device).view(codes.shape) for column in columns)
    """,
    alone=True,
)

# Task 2 · What the fields are worth

wrong, right = LAB.task("magnitude")

wrong(
    "bias computed",
    """
    def magnitude(exponent, mantissa, form):
        bias = 2 ** (form.exponent - 1) - 1
        fraction = mantissa.double() / 2**form.mantissa
        return ((exponent > 0) + fraction) * 2.0 ** (exponent.clamp(min=1) - bias).double()
    """,
    says=["Format(4, 3, bias=", "the bias from form"],
)
wrong(
    "in float32",
    """
    def magnitude(exponent, mantissa, form):
        return ((exponent > 0) + mantissa / 2**form.mantissa) * 2.0 ** (exponent.clamp(min=1) - form.bias)
    """,
    says=["got:      'torch.float32'", "in float64"],
)
wrong(
    "powers in float32",
    """
    def magnitude(exponent, mantissa, form):
        power = 2.0 ** (exponent.clamp(min=1) - form.bias)
        return ((exponent > 0) + mantissa.double() / 2**form.mantissa) * power
    """,
    says=["got inf", "all in float64"],
)
wrong(
    "subnormal one power too low",
    """
    def magnitude(exponent, mantissa, form):
        fraction = mantissa.double() / 2**form.mantissa
        return ((exponent > 0) + fraction) * 2.0 ** (exponent - form.bias).double()
    """,
    says=["expected 0.0625, got 0.03125", "the power of E = 1"],
)
wrong(
    "subnormal with a hidden one",
    """
    def magnitude(exponent, mantissa, form):
        return (1 + mantissa.double() / 2**form.mantissa) * 2.0 ** (exponent - form.bias).double()
    """,
    says=["first [0]: expected 0.0, got 0.125", "no hidden 1"],
)
right(
    "counted up the ladder",
    """
    def magnitude(exponent, mantissa, form):
        steps = torch.exp2((exponent.clamp(min=1) - form.bias - form.mantissa).double())
        return torch.where(exponent == 0, mantissa, mantissa + 2**form.mantissa) * steps
    """,
)

# Task 3 · Every code

wrong, right = LAB.task("decode")

wrong(
    "e4m3 by the rule of the others",
    """
    def decode(codes, form):
        sign, exponent, mantissa = fields(codes, form)
        top = exponent == 2**form.exponent - 1
        values = torch.where(top, math.inf, magnitude(exponent, mantissa, form))
        return torch.where(top & (mantissa > 0), math.nan, values) * (1 - 2 * sign)
    """,
    says=["decode(codes, E4M3)", "first [120]: expected 256.0, got inf", "holds numbers, up to 448"],
)
wrong(
    "infinity without its sign",
    """
    def decode(codes, form):
        sign, exponent, mantissa = fields(codes, form)
        values = magnitude(exponent, mantissa, form) * (1 - 2 * sign)
        top, last = exponent == 2**form.exponent - 1, 2**form.mantissa - 1
        if form.infinities:
            values[top] = torch.where(mantissa[top] == 0, math.inf, math.nan).double()
        else:
            values[top & (mantissa == last)] = math.nan
        return values
    """,
    says=["decode(codes, E5M2)", "expected -inf, got inf"],
)
wrong(
    "no special codes",
    """
    def decode(codes, form):
        sign, exponent, mantissa = fields(codes, form)
        return magnitude(exponent, mantissa, form) * (1 - 2 * sign)
    """,
    says=["expected nan, got 480.0", "only mantissa 111 is NaN"],
)
wrong(
    "one nan everywhere",
    """
    def decode(codes, form):
        sign, exponent, mantissa = fields(codes, form)
        values = magnitude(exponent, mantissa, form)
        top, last = exponent == 2**form.exponent - 1, 2**form.mantissa - 1
        if form.infinities:
            values = torch.where(top, math.inf, values)
        return torch.where(top & (mantissa == last), math.nan, values) * (1 - 2 * sign)
    """,
    says=["decode(codes, E5M2)", "NaN elsewhere"],
)
right(
    "one code at a time",
    """
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
    """,
)

another_way = """
def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    values = magnitude(exponent, mantissa, form)
    top = exponent == 2**form.exponent - 1
    if form.infinities:
        values[top] = math.inf
        values[top & (mantissa > 0)] = math.nan
    else:
        values[top & (mantissa == 2**form.mantissa - 1)] = math.nan
    return values * (1 - 2 * sign)
"""

wrong(
    "all ones is the largest that came",
    ("mantissa > 0", "mantissa != 0"),
    ("2**form.mantissa - 1", "mantissa.max()"),
    ("1 - 2 * sign", "(-1) ** sign"),
    of=another_way,
    says=["expected 448.0, got nan", "not at the other codes"],
)
wrong(
    "rounded to float32",
    """
    def decode(codes, form):
        sign, exponent, mantissa = fields(codes, form)
        values = magnitude(exponent, mantissa, form)
        top = exponent == 2**form.exponent - 1
        if form.infinities:
            values = torch.where(top, math.inf, values)
            values = torch.where(top & (mantissa > 0), math.nan, values)
        else:
            values = torch.where(top & (mantissa == 2**form.mantissa - 1), math.nan, values)
        return (values * (1 - 2 * sign)).float()
    """,
    says=["got:      'torch.float32'", "return float64"],
)
wrong(
    "loses minus zero",
    ("values * (1 - 2 * sign)", "torch.where(sign == 1, 0 - values, values)"),
    of=another_way,
    says=["decode(codes, FP16).signbit()", "0x8000 is -0.0"],
)

# Task 4 · Round with whole numbers

wrong, right = LAB.task("shift")

wrong(
    "by 0 rounds too",
    """
    def shift_nearest(n, shift):
        kept = n >> shift
        half = 1 << (shift - 1).clamp(min=0)
        return (n + half - 1 + kept % 2) >> shift
    """,
    says=["a shift of 0 drops no bit"],
)
wrong(
    "cuts",
    """
    def shift_nearest(n, shift):
        return n >> shift
    """,
    says=["expected 3, got 2", "to the nearest"],
)
wrong(
    "half of a shift by 0",
    """
    def shift_nearest(n, shift):
        kept, rest = n >> shift, n & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        return kept + ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    """,
    says=["expected 1, got 2", "compare 2 · rest with 2^shift"],
)
wrong(
    "in float64",
    """
    def shift_nearest(n, shift):
        return torch.round(n.double() / 2.0 ** shift.double()).long()
    """,
    says=["values differ", "stay in int64"],
)
wrong(
    "ties to odd",
    """
    def shift_nearest(n, shift):
        kept = n >> shift
        rest, whole = n - (kept << shift), 1 << shift
        return kept + ((2 * rest > whole) | ((2 * rest == whole) & (kept % 2 == 0))).long()
    """,
    says=["expected 2, got 3", "to the even neighbour"],
)
wrong(
    "ties up",
    """
    def shift_nearest(n, shift):
        return (n + ((1 << shift) >> 1)) >> shift
    """,
    says=["expected 2, got 3", "to the even neighbour"],
)
right(
    "by adding almost half",
    """
    def shift_nearest(n, shift):
        almost_half = ((1 << shift) >> 1) - 1
        return torch.where(shift == 0, n, (n + almost_half + ((n >> shift) & 1)) >> shift)
    """,
)
right(
    "by fractions of python",
    """
    def shift_nearest(n, shift):
        from fractions import Fraction

        pairs = zip(n.flatten().tolist(), shift.flatten().tolist())
        rounded = [round(Fraction(number, 2**places)) for number, places in pairs]
        return torch.tensor(rounded, dtype=torch.int64, device=n.device).view(n.shape)
    """,
)

wrong(
    "what falls off as a fraction",
    """
    def shift_nearest(n, shift):
        kept = n >> shift
        part = (n - (kept << shift)).double() / (1 << shift).double()
        return kept + ((part > 0.5) | ((part == 0.5) & (kept % 2 == 1)))
    """,
    says=["one more or one less than half"],
)
wrong("a NumPy array", ("return kept + up", "return (kept + up).numpy()"), says=["a tensor, not a NumPy array"])

# Task 5 · The ladder of codes

wrong, right = LAB.task("ladder")

wrong(
    "ends at the largest number",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        significand = mantissa + (exponent > 0) * 2**23
        power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
        shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
        n = significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift))
        last = 2 ** (form.exponent + form.mantissa) - 1
        return torch.where(n >> shift > last, last << shift, n), shift
    """,
    says=["x = float32 tensor (5,) of [448.0, 480.0, 512.0", "the ladder has no end"],
)
wrong(
    "hidden one for float32s subnormals",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
        shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
        return mantissa + 2**23 + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
    """,
    says=["got 3.63798e-12", "0 has no hidden 1"],
)
wrong(
    "hidden one left out",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
        shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
        return mantissa + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
    """,
    says=["first [0]: expected 77.5, got 69.5", "13.5 + 8 · 8"],
)
wrong(
    "no subnormals",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        shift = torch.full_like(exponent, 23 - form.mantissa)
        significand = mantissa + 2**23
        return significand + ((exponent - 127 - 1 + form.bias) << 23), shift
    """,
    says=["ladder(x, E4M3)", "2^-10 is subnormal here"],
)
wrong(
    "shift without an end",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        significand = mantissa + (exponent > 0) * 2**23
        power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
        shift = 23 - form.mantissa + (lowest - power).clamp(min=0)
        return significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
    """,
    says=["'shift'", "clamp the shift to 61"],
)
wrong(
    "sign left in",
    """
    def ladder(x, form):
        bits = bits_of(x)
        exponent, mantissa = bits >> 23, bits % 2**23
        significand = mantissa + (exponent > 0) * 2**23
        power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
        shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
        return significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
    """,
    says=["first [1]: expected 77.0", "13.5 + 8 · 8"],
)
wrong(
    "steps without the rungs below",
    """
    def ladder(x, form):
        _, exponent, mantissa = fields(bits_of(x), FP32)
        significand = mantissa + (exponent > 0) * 2**23
        power = exponent.clamp(min=1) - 127
        return significand, (23 - form.mantissa + (1 - form.bias - power).clamp(min=0)).clamp(max=61)
    """,
    says=["13.5 + 8 · 8"],
)
right(
    "by frexp",
    """
    def ladder(x, form):
        fraction, power = torch.frexp(x.double().abs())
        significand, power = (fraction * 2.0**24).long(), power.long() - 1
        lowest = 1 - form.bias
        shift = torch.where(
            significand == 0, 23 - form.mantissa, 23 - form.mantissa + (lowest - power).clamp(min=0)
        )
        shift = shift.clamp(max=61)
        below = torch.where(significand == 0, 0, (power - lowest).clamp(min=0))
        return significand + (below << (form.mantissa + shift)), shift
    """,
)

wrong(
    "nothing of what is too small",
    (
        "shift = shift.clamp(max=61)",
        "significand = torch.where(shift > 61, 0, significand)\nshift = shift.clamp(max=61)",
    ),
    says=["leave n as it is"],
)

# Task 6 · The nearest code

wrong, right = LAB.task("encode")

wrong(
    "cuts",
    """
    def encode(x, form):
        n, shift = ladder(x, form)
        last = 2 ** (form.exponent + form.mantissa) - 1
        end = last - 2**form.mantissa + 1 if form.infinities else last - 1
        return torch.where(x.isnan(), last, (n >> shift).clamp(max=end)) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["encode(x, E4M3)", "expected"],
)
wrong(
    "judges before rounding",
    """
    def encode(x, form):
        rung = shift_nearest(*ladder(x, form))
        last = 2 ** (form.exponent + form.mantissa) - 1
        end = last - 2**form.mantissa + 1 if form.infinities else last - 1
        largest = (2 - 2.0**-form.mantissa) * 2.0 ** (2**form.exponent - 2 - form.bias) if form.infinities else 448
        rung = torch.where(x.abs() > largest, end, rung)
        return torch.where(x.isnan(), last, rung) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["encode(x, E5M2)", "first [2]: expected 123, got 124", "round first"],
)
wrong(
    "nan becomes the largest",
    """
    def encode(x, form):
        last = 2 ** (form.exponent + form.mantissa) - 1
        end = last - 2**form.mantissa + 1 if form.infinities else last - 1
        return shift_nearest(*ladder(x, form)).clamp(max=end) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["nan", "overwrite the rung where x is NaN"],
)
wrong(
    "no end",
    """
    def encode(x, form):
        rung = shift_nearest(*ladder(x, form))
        return rung + (x.signbit().long() << (form.bits - 1))
    """,
    says=["encode(x, E4M3)", "then clamp the rung"],
)
wrong(
    "saturates every format",
    """
    def encode(x, form):
        rung = shift_nearest(*ladder(x, form))
        last = 2 ** (form.exponent + form.mantissa) - 1
        end = last - 2**form.mantissa if form.infinities else last - 1
        return torch.where(x.isnan(), last, rung.clamp(max=end)) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["encode(x, E5M2)", "to infinity's code"],
)
wrong(
    "sign by comparison",
    """
    def encode(x, form):
        rung = shift_nearest(*ladder(x, form))
        last = 2 ** (form.exponent + form.mantissa) - 1
        end = last - 2**form.mantissa + 1 if form.infinities else last - 1
        code = torch.where(x.isnan(), last, rung.clamp(max=end))
        return code + (code > 0) * (x < 0) * 2 ** (form.bits - 1)
    """,
    says=["encode(x, E4M3)", "first [11]: expected 128, got 0", "torch.signbit"],
)
right(
    "by search among all numbers",
    """
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
    """,
)
# after the other: this one asks the ladder about infinity, of which the ladder by frexp, right too, does not know
right(
    "by round in float64",
    """
    def encode(x, form):
        n, shift = ladder(x, form)
        rung = torch.round(n.double() * 2.0 ** -shift.double()).long()
        infinity = (2**form.exponent - 1) << form.mantissa
        nan = infinity + 2**form.mantissa - 1
        rung = torch.minimum(rung, torch.full_like(rung, infinity if form.infinities else nan - 1))
        rung[x.isnan()] = nan
        return rung | torch.where(torch.signbit(x), 1 << (form.bits - 1), 0)
    """,
)

wrong(
    "its nan in place",
    (
        "rung = shift_nearest(*ladder(x.nan_to_num(), form)).clamp(max=end)",
        """
        nan = x.isnan()
        x[nan] = 0
        rung = shift_nearest(*ladder(x.nan_to_num(), form)).clamp(max=end)
        """,
    ),
    ("torch.where(x.isnan(), last, rung)", "torch.where(nan, last, rung)"),
    says=["x belongs to the caller"],
)
wrong(
    "a NumPy array",
    (
        "return rung + (x.signbit().long() << (form.bits - 1))",
        "return (rung + (x.signbit().long() << (form.bits - 1))).numpy()",
    ),
    says=["a tensor, not a NumPy array"],
)

# Task 7 · Let chance round

wrong, right = LAB.task("stochastic")

wrong(
    "a fair coin",
    """
    def stochastic(x, form, generator):
        n, shift = ladder(x, form)
        held = (n >> shift) << shift == n
        coin = torch.randint(2, x.shape, generator=generator, device=x.device)
        return (n >> shift) + torch.where(held, 0, coin) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["codes 16256 and 16257", "from 0 to 2^shift - 1"],
)
wrong(
    "always 16 bits",
    (
        "torch.randint(2**61, x.shape, generator=generator, device=x.device) % (1 << shift)",
        "torch.randint(2**16, x.shape, generator=generator, device=x.device)",
    ),
    says=["stochastic(x, FP16", "codes 32773 and 32774"],
)
wrong(
    "forgets the sign",
    ("((n + noise) >> shift) + (x.signbit().long() << (form.bits - 1))", "(n + noise) >> shift"),
    says=["-448.0 is on a rung and must stay, with its sign"],
)
wrong(
    "in float32",
    """
    def stochastic(x, form, generator):
        n, shift = ladder(x, form)
        chance = torch.rand(x.shape, generator=generator, device=x.device)
        return torch.floor(n / 2**shift + chance).long() + (x.signbit().long() << (form.bits - 1))
    """,
    says=["1.0 is on a rung and must stay", "whole noise"],
)
wrong(
    "jitter before nearest",
    """
    def stochastic(x, form, generator):
        size = x.double().abs()
        step = decode(encode(x, form) % 2 ** (form.bits - 1) + 1, form) - decode(encode(x, form), form).abs()
        jitter = torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) - 0.5
        exact = decode(encode(x, form), form) == x.double()
        moved = torch.where(exact, x, torch.copysign(size + jitter * step, x.double()).float())
        return encode(moved, form)
    """,
    says=["codes 16256 and 16257", "added to n before the cut"],
)
wrong(
    "noise up to 2 to the shift minus 2",
    ("1 << shift", "(1 << shift) - 1"),
    says=["Format(8, 22, bias=127)", "from 0 to 2^shift - 1"],
)
wrong(
    "one draw for all",
    """
    def stochastic(x, form, generator):
        n, shift = ladder(x, form)
        draw = torch.randint(2**61, (1,), generator=generator, device=x.device)
        return ((n + draw % (1 << shift)) >> shift) + (x.signbit().long() << (form.bits - 1))
    """,
    says=["for each element"],
)
wrong(
    "rounds after the noise",
    ("(n + noise) >> shift", "shift_nearest(n + noise, shift)"),
    says=["is on a rung and must stay", "then the cut"],
)
wrong(
    "with the global generator",
    (
        "torch.randint(2**61, x.shape, generator=generator, device=x.device)",
        "torch.randint(2**61, x.shape, device=x.device)",
    ),
    says=["'global generator untouched': False", "a draw for each element"],
)
wrong(
    "without chance",
    """
    def stochastic(x, form, generator):
        return encode(x, form)
    """,
    says=["'same for another': True", "all chance comes from generator"],
)
right(
    "by comparing with a share",
    """
    def stochastic(x, form, generator):
        n, shift = ladder(x, form)
        below = n >> shift
        share = (n - (below << shift)).double() / 2.0 ** shift.double()
        up = torch.rand(x.shape, generator=generator, dtype=torch.float64, device=x.device) < share
        return below + up + (x.signbit().long() << (form.bits - 1))
    """,
)

wrong(
    "one bound for all",
    (
        "torch.randint(2**61, x.shape, generator=generator, device=x.device) % (1 << shift)",
        "torch.randint(2 ** int(shift.max()), x.shape, generator=generator, device=x.device)",
    ),
    says=["each number has its own shift"],
)
wrong(
    "one draw for a column",
    ("randint(2**61, x.shape,", "randint(2**61, x.shape[-1:],"),
    says=["'rows alike': True", "for each element"],
)
wrong(
    "the same draws in each call",
    ("n, shift = ", "generator = torch.Generator(x.device).manual_seed(generator.initial_seed())\nn, shift = "),
    says=["other codes in the next call", "the generator that you were given"],
)
wrong("too few random bits", ("2**61", "2**31"), says=["as many random bits as the largest shift"])

# Task 8 · A weight that exists only as a code

wrong, right = LAB.task("step")

wrong(
    "always by chance",
    """
    def sgd_step(codes, gradient, lr, form, generator=None):
        moved = decode(codes, form).float() - lr * gradient
        return stochastic(moved, form, generator or torch.Generator(codes.device).manual_seed(0))
    """,
    says=["sgd_step(codes, gradient, 0.125, BF16)", "encode"],
)
wrong(
    "hands on float64",
    ("decode(codes, form).float()", "decode(codes, form)"),
    says=["got torch.float64", "call .float() first"],
)
wrong(
    "in place",
    """
    def sgd_step(codes, gradient, lr, form, generator=None):
        moved = decode(codes, form).float() - lr * gradient
        return codes.copy_(encode(moved, form) if generator is None else stochastic(moved, form, generator))
    """,
    says=["['old']", "leave the old ones alone"],
)
wrong(
    "nearest first",
    (
        "decode(codes, form).float() - lr * gradient",
        "decode(encode(decode(codes, form).float() - lr * gradient, form), form).float()",
    ),
    says=["about 0.9", "subtract lr · gradient before it"],
)
wrong(
    "update rounded to the format",
    (
        "moved = decode(codes, form).float() - lr * gradient",
        """
        update = decode(encode(lr * gradient, form), form)
        moved = (decode(codes, form) - update).float()
        """,
    ),
    says=["sgd_step(codes, gradient, 0.125, BF16)", "in float32"],
)
wrong(
    "uphill",
    ("decode(codes, form).float() - lr * gradient", "decode(codes, form).float() + lr * gradient"),
    says=["values differ", "subtract lr · gradient in float32"],
)
right(
    "in float64",
    """
    def sgd_step(codes, gradient, lr, form, generator=None):
        store = encode if generator is None else lambda x, form: stochastic(x, form, generator)
        return store((decode(codes, form) - lr * gradient.double()).float(), form)
    """,
)
