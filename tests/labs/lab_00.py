"""Lab 00 · Plan a run: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("00_plan_a_run")


# Task 1 · How many parameters?

wrong, right = LAB.task("parameters")

wrong(
    "12 d squared",
    """
    def gpt_parameters(layers, width, vocabulary, context):
        return 12 * layers * width**2 + (vocabulary + context + 2) * width
    """,
    says=["expected: 106", "got:      80"],
)
wrong(
    "no last norm",
    """
    def gpt_parameters(layers, width, vocabulary, context):
        return layers * (12 * width**2 + 13 * width) + (vocabulary + context) * width
    """,
    says=["expected: 106", "got:      102", "last norm 4"],
)
wrong(
    "norms once",
    """
    def gpt_parameters(layers, width, vocabulary, context):
        return layers * (12 * width**2 + 11 * width) + (vocabulary + context + 2) * width
    """,
    says=["expected: 106", "got:      102"],
)
wrong(
    "read out counted twice",
    ("vocabulary + context", "2 * vocabulary + context"),
    says=["expected: 106", "got:      126"],
)
right(
    "added up map by map",
    """
    def gpt_parameters(layers, width, vocabulary, context):
        def linear(inputs, outputs):
            return inputs * outputs + outputs

        norm = 2 * width
        layer = norm + 4 * linear(width, width) + norm + linear(width, 4 * width) + linear(4 * width, width)
        return vocabulary * width + context * width + sum(layer for _ in range(layers)) + norm
    """,
)
right(
    "counted on meta",
    """
    def gpt_parameters(layers, width, vocabulary, context):
        with torch.device("meta"):
            layer = torch.nn.TransformerEncoderLayer(width, 1, 4 * width)
            rest = [
                torch.nn.Embedding(vocabulary, width),
                torch.nn.Embedding(context, width),
                torch.nn.LayerNorm(width),
            ]
        count = lambda module: sum(p.numel() for p in module.parameters())
        return layers * count(layer) + sum(map(count, rest))
    """,
)

wrong("as a float", ("layers * layer", "float(layers * layer)"), says=["an int", "no float"])

# Task 2 · How many FLOPs does a token cost?

wrong, right = LAB.task("flops")

wrong(
    "6 n",
    """
    def flops_per_token(layers, width, vocabulary, context):
        return 6 * gpt_parameters(layers, width, vocabulary, context)
    """,
    says=["expected: 504", "got:      636"],
)
wrong(
    "causal half",
    """
    def flops_per_token(layers, width, vocabulary, context):
        return 3 * (2 * (12 * layers * width**2 + vocabulary * width) + 2 * layers * context * width)
    """,
    says=["expected: 504", "got:      456"],
)
wrong(
    "forward only",
    """
    def flops_per_token(layers, width, vocabulary, context):
        return 2 * (12 * layers * width**2 + vocabulary * width) + 4 * layers * context * width
    """,
    says=["expected: 504", "got:      168", "times 3"],
)
wrong(
    "without attention",
    """
    def flops_per_token(layers, width, vocabulary, context):
        return 6 * (12 * layers * width**2 + vocabulary * width)
    """,
    says=["expected: 504", "got:      408", "32 for attention"],
)
wrong(
    "without read out",
    """
    def flops_per_token(layers, width, vocabulary, context):
        return 3 * (2 * 12 * layers * width**2 + 4 * layers * context * width)
    """,
    says=["expected: 504", "got:      384"],
)
right(
    "from the parameters",
    """
    def flops_per_token(layers, width, vocabulary, context):
        no_matrix = 13 * layers * width + (context + 2) * width
        matrices = gpt_parameters(layers, width, vocabulary, context) - no_matrix
        return 6 * matrices + 12 * layers * width * context
    """,
)

wrong(
    "as a float",
    ("4 * layers * context * width", "4.0 * layers * context * width"),
    says=["an int", "no float"],
)

# Task 3 · How long, and at what price?

wrong, right = LAB.task("price")

wrong(
    "divides by no gpu",
    ('f"mfu={mfu} is no share of the peak: give a number above 0 and at most 1"', 'f"mfu={mfu}"'),
    (
        """
        if gpus < 1:
            raise ValueError(f"gpus={gpus}: a run needs at least one")
        """,
        "",
    ),
    says=["expected: ValueError to be raised", "got:      ZeroDivisionError", "not a division by 0"],
)
wrong(
    "the price of days",
    """
    def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
        if not 0 < mfu <= 1 or gpus < 1:
            raise ValueError(f"mfu={mfu}, gpus={gpus}")
        days = flops / (gpus * peak * mfu) / 86_400
        return days, days * gpus * dollars_per_hour
    """,
    says=["expected 96.0, got 4.0"],
)
right(
    "the price first",
    """
    def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
        if gpus < 1:
            raise ValueError(f"{gpus} GPUs")
        if mfu > 1 or mfu <= 0:
            raise ValueError(f"an MFU of {mfu}")
        gpu_hours = flops / peak / mfu / 3600
        return gpu_hours / gpus / 24, gpu_hours * dollars_per_hour
    """,
)

another_way = """
def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if not 0 < mfu <= 1 or gpus < 1:
        raise ValueError(f"mfu={mfu}, gpus={gpus}")
    seconds = flops / (gpus * peak * mfu)
    return seconds / 86_400, seconds / 3_600 * gpus * dollars_per_hour
"""

wrong(
    "an mfu of 1 refused",
    ("0 < mfu <= 1", "0 < mfu < 1"),
    of=another_way,
    says=["with mfu = 1.0", "the limit, and allowed"],
)
wrong(
    "mfu in percent",
    ("not 0 < mfu <= 1", "mfu <= 0"),
    of=another_way,
    says=["with mfu = 1.2", "expected: ValueError to be raised", "nobody plans with 120 %"],
)
wrong(
    "of less than no gpu",
    ("not 0 < mfu <= 1 or gpus < 1", "not 0 < mfu <= 1 or gpus == 0"),
    of=another_way,
    says=["with gpus = -2", "expected: ValueError to be raised"],
)
wrong(
    "of one gpu",
    ("seconds / 3_600 * gpus", "seconds / 3_600"),
    of=another_way,
    says=["with gpus = 2", "expected 96.0, got 48.0", "each is paid"],
)
wrong(
    "times mfu",
    ("flops / (gpus * peak * mfu)", "flops / (gpus * peak) * mfu"),
    of=another_way,
    says=["expected 2.0, got 0.5", "172,800 seconds"],
)

# Task 4 · Does it fit?

wrong, right = LAB.task("state")

right(
    "by a table",
    """
    def state_bytes(parameters, gpus, stage):
        share = math_ceil(parameters, gpus)
        try:
            whole = {0: 16, 1: 4, 2: 2, 3: 0}[stage]
        except KeyError:
            raise ValueError(f"there is no stage {stage}") from None
        return whole * parameters + (16 - whole) * share


    def math_ceil(a, b):
        return (a + b - 1) // b
    """,
)

another_way = """
def state_bytes(parameters, gpus, stage):
    if stage not in range(4):
        raise ValueError(f"stage={stage}")
    share = -(-parameters // gpus)
    held = [share if stage >= first else parameters for first in (3, 2, 1)]
    return sum(each * count for each, count in zip((2, 2, 12), held))
"""

wrong(
    "any stage",
    (
        """
        if stage not in range(4):
            raise ValueError(f"stage={stage}")
        """,
        "",
    ),
    of=another_way,
    says=["with stage = 4", "ValueError to be raised"],
)
wrong("in fp32", ("(2, 2, 12)", "(4, 4, 8)"), of=another_way, says=["with stage = 1", "expected: 76", "got:      104"])
wrong(
    "share rounded down",
    ("-(-parameters // gpus)", "parameters // gpus"),
    of=another_way,
    says=["with stage = 1", "expected: 76", "got:      64", "rounded up"],
)
wrong("stages mixed up", ("(3, 2, 1)", "(1, 2, 3)"), of=another_way, says=["with stage = 1", "expected: 76"])

wrong("as a float", ("(2, 2, 12)", "(2.0, 2.0, 12.0)"), of=another_way, says=["an int", "no float"])

# Task 5 · What binds?

wrong, right = LAB.task("limits")

wrong(
    "a fraction of a parameter",
    """
    def largest_models(days, gpus, peak, memory, mfu):
        budget = days * 86_400 * gpus * peak * mfu
        sizes = {"by compute": int((budget / 120) ** 0.5), "by memory": gpus * memory / 16}
        return sizes | {"binds": "compute" if sizes["by compute"] < sizes["by memory"] else "memory"}
    """,
    says=["['by memory']", "whole parameters only"],
)
wrong(
    "a key of another name",
    """
    def largest_models(days, gpus, peak, memory, mfu):
        compute = int((gpus * peak * mfu * days * 86_400 / 120) ** 0.5)
        fits = gpus * memory // 16
        return {"compute": compute, "memory": fits, "binds": "compute" if compute < fits else "memory"}
    """,
    says=["that has 'by compute'"],
)
wrong(
    "of one gpu",
    """
    def largest_models(days, gpus, peak, memory, mfu):
        compute = int((gpus * peak * mfu * days * 86_400 / 120) ** 0.5)
        fits = memory // 16
        return {"by compute": compute, "by memory": fits, "binds": "compute" if compute < fits else "memory"}
    """,
    says=["['by memory']", "all GPUs together"],
)
wrong(
    "the larger binds",
    ("budget = gpus * peak * mfu * days * 86_400", ""),
    ("budget / 120", "gpus * peak * mfu * days * 86_400 / 120"),
    ("min(limits, key=limits.get)", "max(limits, key=limits.get)"),
    says=["['binds']", "expected: 'memory'", "got:      'compute'"],
)
wrong(
    "tokens fixed",
    """
    def largest_models(days, gpus, peak, memory, mfu):
        compute = int(gpus * peak * mfu * days * 86_400 / (6 * 20))
        fits = gpus * memory // 16
        return {"by compute": compute, "by memory": fits, "binds": "compute" if compute < fits else "memory"}
    """,
    says=["['by compute']", "120 N²"],
)
right(
    "by bisection",
    """
    def largest_models(days, gpus, peak, memory, mfu):
        budget = gpus * peak * mfu * days * 86_400
        low, high = 0, 10**15
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if 6 * middle * 20 * middle <= budget else (low, middle)
        fits = gpus * memory // 16
        return {"by memory": fits, "by compute": low, "binds": "memory" if fits < low else "compute"}
    """,
)

wrong(
    "memory as a float",
    ("gpus * memory // 16", "gpus * memory / 16 // 1"),
    says=["['by memory']", "an int", "no float"],
)
right(
    "in another order",
    """
    import math


    def largest_models(days, gpus, peak, memory, mfu):
        budget = mfu * peak * gpus * days * 86_400
        n, m = math.floor(math.sqrt(budget / 6 / 20)), gpus * memory // 16
        return {"by compute": n, "by memory": m, "binds": "compute" if n < m else "memory"}
    """,
)
wrong(
    "whole parameters on each GPU",
    ("gpus * memory // 16", "gpus * (memory // 16)"),
    says=["in the memory of all GPUs together"],
)

# Task 6 · The plan

wrong, right = LAB.task("plan")


another_way = """
def plan(layers, width, vocabulary, context, tokens, gpus, peak, memory, mfu, dollars_per_hour):
    n = gpt_parameters(layers, width, vocabulary, context)
    flops = tokens * flops_per_token(layers, width, vocabulary, context)
    days, dollars = time_and_price(flops, gpus, peak, mfu, dollars_per_hour)
    stage = next((s for s in range(4) if state_bytes(n, gpus, s) <= 0.8 * memory), None)
    bound = "memory" if stage is None else "compute"
    return {
        "parameters": n,
        "tokens per parameter": tokens / n,
        "days": days,
        "dollars": dollars,
        "stage": stage,
        "bound by": bound,
    }
"""

wrong(
    "by 6 n d",
    ("tokens * flops_per_token(layers, width, vocabulary, context)", "6 * n * tokens"),
    of=another_way,
    says=["['days']", "95 minutes"],
)
wrong(
    "largest stage",
    ("range(4)", "(3, 2, 1, 0)"),
    of=another_way,
    says=["['stage']: expected 0, got 3", "smallest stage"],
)
wrong("no room for activations", ("0.8 * memory", "memory"), of=another_way, says=["['stage']", "0.8 · memory"])
wrong(
    "stage 0 taken for none",
    ('"memory" if stage is None else "compute"', '"compute" if stage else "memory"'),
    of=another_way,
    says=["'bound by']"],
)
wrong(
    "every GPU one of 80 GB",
    ("0.8 * memory", "64e9"),
    of=another_way,
    says=["['stage']: expected 2, got 1", "0.8 · memory"],
)
wrong(
    "less than 80 percent",
    ("<= 0.8 * memory", "< 0.8 * memory"),
    of=another_way,
    says=["['stage']: expected 0", "exactly 0.8 · memory fits"],
)
right(
    "with a loop",
    (
        "stage = next((s for s in range(4) if state_bytes(n, gpus, s) <= 0.8 * memory), None)",
        """
        stage = None
        for s in (3, 2, 1, 0):
            if state_bytes(n, gpus, s) <= 0.8 * memory:
                stage = s
        """,
    ),
    of=another_way,
)
