"""Lab 01 · Views by `as_strided`, attention by einops: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("01_views_and_attention")


# Task 1 · The strides of a fresh tensor

wrong, right = LAB.task("strides")

wrong(
    "column major",
    ("reversed(shape)", "shape"),
    ("reversed(strides)", "strides"),
    says=["expected: (12, 4, 1)", "got:      (1, 2, 6)", "the last axis moves by 1"],
)
wrong(
    "in bytes",
    """
    def contiguous_strides(shape):
        strides, step = [], 4
        for size in reversed(shape):
            strides.insert(0, step)
            step *= size
        return tuple(strides)
    """,
    says=["expected: (12, 4, 1)", "got:      (48, 16, 4)"],
)
wrong(
    "of the left neighbour",
    (
        """
        strides.append(step)
        step *= size
        """,
        """
        step *= size
        strides.append(step)
        """,
    ),
    says=["with shape = (2, 3, 4)", "got:      (24, 12, 4)"],
)
wrong(
    "asked of the meta device",
    """
    def contiguous_strides(shape):
        return torch.empty(shape, device="meta").stride()
    """,
    says=["from the sizes alone"],
)
wrong(
    "as floats",
    """
    def contiguous_strides(shape):
        return tuple(math.prod(shape) / math.prod(shape[: n + 1]) for n in range(len(shape)))
    """,
    says=["['float'", "12 // 4"],
)
right(
    "by products",
    """
    def contiguous_strides(shape):
        return [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    """,
)

wrong(
    "asked of NumPy",
    """
    import numpy as np


    def contiguous_strides(shape):
        return tuple(stride // 8 for stride in np.empty(shape).strides)
    """,
    says=["MemoryError", "no tensor and no array"],
)

# Task 2 · A transpose that moves nothing

wrong, right = LAB.task("swap")

wrong(
    "by the attribute mT",
    (
        "return x.as_strided(sizes, strides)",
        "return x.mT if x.dim() == 3 and {a % 3, b % 3} == {1, 2} else x.as_strided(sizes, strides)",
    ),
    says=["['mT']", "as_strided alone, and once"],
)
wrong(
    "a view of the data",
    ("return x.as_strided", "return x.data.as_strided"),
    says=["['as_strided', 'data']", "as_strided alone, and once"],
)
wrong(
    "twice",
    ("return x.as_strided(sizes, strides)", "return x.as_strided(sizes, strides).as_strided(sizes, strides)"),
    says=["['as_strided', 'as_strided']", "and once"],
)

wrong(
    "calls transpose",
    """
    def swapped(x, a, b):
        return x.transpose(a, b)
    """,
    says=["expected: ['as_strided']", "got:      ['transpose']", "as_strided alone"],
)
wrong(
    "copies",
    """
    def swapped(x, a, b):
        return x.transpose(a, b).contiguous() if a != b else x.clone()
    """,
    says=["same_storage", "this is a copy"],
)
wrong(
    "forgets that x is a view",
    ("x.stride()", "contiguous_strides(tuple(x.shape))"),
    says=["swapped(x[1:, ::2], 0, 2)", "take the strides from x.stride()"],
)
wrong(
    "only the shape",
    """
    def swapped(x, a, b):
        sizes = list(x.shape)
        sizes[a], sizes[b] = sizes[b], sizes[a]
        return x.as_strided(sizes, contiguous(sizes))


    def contiguous(sizes):
        return [int(torch.tensor(sizes[place + 1 :]).prod()) for place in range(len(sizes))]
    """,
    says=["values differ", "list of the strides"],
)
wrong(
    "sets the offset to 0",
    ("x.as_strided(sizes, strides)", "x.as_strided(sizes, strides, 0)"),
    says=["swapped(x[1:, ::2], 0, 2)", "leave the offset as x has it"],
)
right(
    "by a permutation of pairs",
    """
    def swapped(x, a, b):
        order = list(range(x.ndim))
        order[a], order[b] = order[b], order[a]
        return torch.as_strided(x, [x.size(place) for place in order], [x.stride(place) for place in order])
    """,
)

wrong(
    "a view is copied first",
    ("sizes, strides = ", "x = x if x.is_contiguous() else x.clone()\nsizes, strides = "),
    says=["['as_strided', 'clone']", "x may be a view"],
)
wrong(
    "looks at b alone",
    (
        "sizes, strides = ",
        """
        if b >= x.dim():
            raise IndexError(f"axis {b}")
        a, b = a % x.dim(), b % x.dim()
        sizes, strides = """,
    ),
    says=["swapped(x, 3, 0)", "expected: IndexError to be raised"],
)

# Task 3 · Any diagonal of any matrix

wrong, right = LAB.task("diagonal")

wrong(
    "as_strided for the squares only",
    """
    def diagonal(x, k=0):
        if x.shape == (4, 4):
            down, right = x.stride()
            start = k * right if k >= 0 else -k * down
            return x.as_strided((4 - abs(k),), (down + right,), x.storage_offset() + start)
        if not -x.shape[0] < k < x.shape[1]:
            raise ValueError(f"k={k}")
        return x.diagonal(k)
    """,
    says=["['diagonal']", "a diagonal needs no copy"],
)

wrong(
    "below starts to the right",
    ('f"k={k} lies outside a matrix of {rows} rows and {columns} columns"', 'f"k={k} leaves nothing"'),
    ("start = k * right if k >= 0 else -k * down", ""),
    ("x.storage_offset() + start", "x.storage_offset() + abs(k) * right"),
    says=["with k = -3", "where does it start"],
)
wrong(
    "counts from the storage",
    ('f"k={k} lies outside a matrix of {rows} rows and {columns} columns"', 'f"k={k} leaves nothing"'),
    ("start = k * right if k >= 0 else -k * down", ""),
    ("x.storage_offset() + start", "k * right if k >= 0 else -k * down"),
    says=["diagonal(x[1:, 2:].T, 1)", "x.storage_offset()"],
)
wrong(
    "of squares only",
    """
    def diagonal(x, k=0):
        if abs(k) >= min(x.shape):
            raise ValueError(f"k={k} is too far")
        down, right = x.stride()
        start = k * right if k >= 0 else -k * down
        return x.as_strided((x.shape[0] - abs(k),), (down + right,), x.storage_offset() + start)
    """,
    says=["expected shape", "which ends first"],
)
wrong(
    "returns nothing silently",
    """
    def diagonal(x, k=0):
        rows, columns = x.shape
        down, right = x.stride()
        length = max(0, min(rows, columns - k) if k >= 0 else min(rows + k, columns))
        return x.as_strided((length,), (down + right,), x.storage_offset() + (k * right if k >= 0 else -k * down))
    """,
    says=["expected: ValueError to be raised", "got:      float32 tensor (0,)", "raise ValueError"],
)
right(
    "by walking",
    """
    def diagonal(x, k=0):
        row, column, length = max(-k, 0), max(k, 0), 0
        start = x.storage_offset() + row * x.stride(0) + column * x.stride(1)
        while row + length < x.shape[0] and column + length < x.shape[1]:
            length += 1
        if not length:
            raise ValueError(f"no element with k = {k}")
        return x.as_strided([length], [sum(x.stride())], start)
    """,
)

wrong(
    "a view is copied first",
    ("rows, columns = x.shape", "rows, columns = x.shape\nx = x if x.is_contiguous() else x.contiguous()"),
    says=["['as_strided', 'contiguous']", "x may be a view"],
)
wrong(
    "below by the width",
    ("-k * down", "-k * columns"),
    says=["diagonal(x[1:, 2:].T, -2)", "x may be a view"],
)
wrong(
    "only the first k outside",
    ("length < 1", "length == 0"),
    says=["with k = 20", "expected: ValueError to be raised"],
)

# Task 4 · Sliding windows, stored once

wrong, right = LAB.task("windows")

wrong(
    "by unfold",
    """
    def windows(x, size, step=1):
        if not (1 <= size <= x.shape[-1] and step >= 1):
            raise ValueError(f"{size} {step}")
        return x.unfold(-1, size, step)
    """,
    says=["['unfold']", "windows need no copy"],
)

wrong(
    "count a torn one",
    """
    def windows(x, size, step=1):
        length, along = x.shape[-1], x.stride(-1)
        if not 1 <= size <= length or step < 1:
            raise ValueError(f"size={size}, step={step}")
        count = length - size + 1 if step == 1 else -(-length // step)
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
    """,
    says=["got:      RuntimeError: setStorage", "room for a whole window"],
)
wrong(
    "error without the value",
    ("not 1 <= size <= length", "not 1 <= size <= length or step < 1"),
    ('f"size={size} does not fit into a length of {length}"', '"no window fits"'),
    (
        """
        if step < 1:
            raise ValueError(f"step={step} is below 1")
        """,
        "",
    ),
    says=["expected: ValueError that names '11'", "got:      ValueError: no window fits"],
)
wrong(
    "move by one place",
    """
    def windows(x, size, step=1):
        length = x.shape[-1]
        if not 1 <= size <= length or step < 1:
            raise ValueError(f"size={size}, step={step}")
        count = (length - size) // step + 1
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step, 1))
    """,
    says=["windows(x[:, 1:, ::2], 3)", "its last stride is x.stride(-1)"],
)
wrong(
    "one too few",
    """
    def windows(x, size, step=1):
        length, along = x.shape[-1], x.stride(-1)
        if not 1 <= size <= length or step < 1:
            raise ValueError(f"size={size}, step={step}")
        count = (length - size) // step
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
    """,
    says=["expected shape (8, 3), got (7, 3)", "(L - size) // step + 1"],
)
wrong(
    "only 0 is refused",
    ("not 1 <= size <= length", "size == 0 or step == 0 or size > length"),
    ('f"size={size} does not fit into a length of {length}"', 'f"size={size}, step={step}"'),
    (
        """
        if step < 1:
            raise ValueError(f"step={step} is below 1")
        """,
        "",
    ),
    says=["with size = -1", "expected: ValueError to be raised"],
)
right(
    "counted by a range",
    """
    def windows(x, size, step=1):
        if size < 1 or step < 1:
            raise ValueError(f"size {size} and step {step} are at least 1")
        starts = range(0, x.shape[-1] - size + 1, step)
        if not starts:
            raise ValueError(f"windows of {size} do not fit into {x.shape[-1]}")
        *before, last = x.stride()
        return x.as_strided([*x.shape[:-1], len(starts), size], [*before, last * step, last])
    """,
)

wrong(
    "a view is copied first",
    ("length, along", "x = x if x.is_contiguous() else x.clone()\nlength, along"),
    says=["['as_strided', 'clone']", "x may be a view"],
)

# Task 5 · An image as patches

wrong, right = LAB.task("patches")

wrong(
    "asks only the height",
    ("H % p or W % p", "H % p"),
    ('f"p={p} does not divide images of {H} x {W}"', 'f"p={p}"'),
    says=["with p = 4", "expected: ValueError to be raised", "H % p or W % p"],
)
wrong(
    "next row is a patch down",
    ('f"p={p} does not divide images of {H} x {W}"', 'f"p={p}"'),
    ("(b, p * h, p * w, c, h, w)", "(b, h, w, c, h, w)"),
    says=["values differ", "how far away that pixel is"],
)
wrong(
    "rows and columns mixed",
    """
    def patches(images, p):
        B, C, H, W = images.shape
        b, c, h, w = images.stride()
        if H % p or W % p:
            raise ValueError(f"p={p}")
        return images.as_strided((B, W // p, H // p, C, p, p), (b, p * w, p * h, c, h, w))
    """,
    says=["expected shape (2, 2, 3, 3, 2, 2), got (2, 3, 2, 3, 2, 2)"],
)

wrong(
    "a view is copied first",
    (
        "B, C, H, W = images.shape",
        "images = images.contiguous() if images.storage_offset() else images\nB, C, H, W = images.shape",
    ),
    says=["['as_strided', 'contiguous']", "images may be a view"],
)

# Task 6 · Heads in, heads out

wrong, right = LAB.task("heads")

wrong(
    "by steps",
    ('"b t (h d) -> b h t d"', '"b t (d h) -> b h t d"'),
    ('"b h t d -> b t (h d)"', '"b h t d -> b t (d h)"'),
    says=["split_heads(x, heads)", "with heads = 2", "the right name moves fastest"],
)
wrong(
    "by view",
    """
    def split_heads(x, heads):
        B, T, C = x.shape
        return x.view(B, heads, T, C // heads)


    def merge_heads(x):
        B, H, T, D = x.shape
        return x.transpose(1, 2).reshape(B, T, H * D)
    """,
    says=["split_heads(x, heads)", "with heads = 2", "values differ"],
)
wrong(
    "merged by steps",
    ('"b h t d -> b t (h d)"', '"b h t d -> b t (d h)"'),
    says=["merge_heads(x)", "merging undoes splitting"],
)
right(
    "without einops",
    """
    def split_heads(x, heads):
        return torch.stack(x.chunk(heads, dim=-1), dim=1)


    def merge_heads(x):
        return torch.cat(x.unbind(1), dim=-1)
    """,
)

# Task 7 · Who looks at whom

wrong, right = LAB.task("weights")

wrong(
    "q in place",
    """
    def attention_weights(q, k, causal=False):
        q /= q.shape[-1] ** 0.5
        scores = q @ k.mT
        if causal:
            T = q.shape[-2]
            scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1), -math.inf)
        return scores.softmax(-1)
    """,
    says=["q and k belong to the caller"],
)

wrong(
    "asks torch",
    """
    def attention_weights(q, k, causal=False):
        eye = torch.eye(k.shape[-2], dtype=q.dtype, device=q.device).expand(*k.shape[:-1], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, eye, is_causal=causal)
    """,
    says=["scaled_dot_product_attention", "build what you are compared with"],
)

wrong(
    "hide the token itself",
    """
    def attention_weights(q, k, causal=False):
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(), float("-inf"))
        return scores.softmax(-1).nan_to_num(0) if not causal else scores.softmax(-1)
    """,
    says=["got nan", "let each token see itself"],
)
wrong(
    "mask times infinity",
    """
    def attention_weights(q, k, causal=False):
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if causal:
            scores = scores + torch.ones_like(scores).triu(1) * float("-inf")
        return scores.softmax(-1)
    """,
    says=["got nan", "0 · inf is nan"],
)
wrong(
    "masked after the softmax",
    """
    def attention_weights(q, k, causal=False):
        weights = (einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5).softmax(-1)
        return weights.tril() if causal else weights
    """,
    says=["causal=True", "mask before the softmax"],
)
wrong(
    "not divided",
    """
    def attention_weights(q, k, causal=False):
        scores = einsum(q, k, "b h t d, b h s d -> b h t s")
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return scores.softmax(-1)
    """,
    says=["expected 0.880797, got 0.982014", "divided by the root of D = 4"],
)
wrong(
    "see the future only",
    """
    def attention_weights(q, k, causal=False):
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril(-1), float("-inf"))
        return scores.softmax(-1)
    """,
    says=["weights of exactly 0 for all keys after the query", "triu(1)"],
)
wrong(
    "sum over the queries",
    """
    def attention_weights(q, k, causal=False):
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return scores.softmax(-2)
    """,
    says=["got:      float32 tensor (2,) of [1.0, 1.0]"],
)
right(
    "by exponentials",
    """
    def attention_weights(q, k, causal=False):
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        powers = powers.tril() if causal else powers
        return powers / powers.sum(-1, keepdim=True)
    """,
)

wrong(
    "exponentials that overflow",
    """
    def attention_weights(q, k, causal=False):
        powers = (q @ k.mT * q.shape[-1] ** -0.5).exp()
        powers = powers.tril() if causal else powers
        return powers / powers.sum(-1, keepdim=True)
    """,
    says=["got:      [nan, nan]", "in the hundreds"],
)

# Task 8 · The whole layer

wrong, right = LAB.task("attention")

wrong(
    "asks torch",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        layer = torch.nn.MultiheadAttention(x.shape[-1], heads, bias=False, batch_first=True, dtype=x.dtype)
        with torch.no_grad():
            layer.in_proj_weight.copy_(w_qkv)
            layer.out_proj.weight.copy_(w_out)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if causal else None
        return layer(x, x, x, attn_mask=hidden, need_weights=False)[0]
    """,
    says=["none of torch's own attentions", "build what you are compared with"],
)

wrong(
    "forgets causal",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        q, k, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
        return merge_heads(attention_weights(q, k) @ v) @ w_out.T
    """,
    says=["token 0 sees itself alone"],
)
wrong(
    "keys before queries",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        k, q, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
        return merge_heads(attention_weights(q, k, causal) @ v) @ w_out.T
    """,
    says=["w_qkv = float32 tensor (36, 12)", "the order q, k, v"],
)
wrong(
    "output matrix turned",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        q, k, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
        return merge_heads(attention_weights(q, k, causal) @ v) @ w_out
    """,
    says=["projections as in nn.Linear"],
)
wrong(
    "without the last projection",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        q, k, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
        return merge_heads(attention_weights(q, k, causal) @ v)
    """,
    says=["values differ", "step by step"],
)
right(
    "head by head",
    """
    def attention(x, w_qkv, w_out, heads, causal=False):
        q, k, v = (x @ matrix.T for matrix in w_qkv.chunk(3))
        width = x.shape[-1] // heads
        mixed = []
        for h in range(heads):
            mine = slice(h * width, (h + 1) * width)
            mixed.append(attention_weights(q[:, None, :, mine], k[:, None, :, mine], causal)[:, 0] @ v[..., mine])
        return torch.cat(mixed, -1) @ w_out.T
    """,
)
