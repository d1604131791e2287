# replaces: code-attention


def attention(x, w_qkv, w_out, heads, causal=False):
    q, k, v = (x @ matrix.T for matrix in w_qkv.chunk(3))
    width = x.shape[-1] // heads
    mixed = []
    for h in range(heads):
        mine = slice(h * width, (h + 1) * width)
        mixed.append(attention_weights(q[:, None, :, mine], k[:, None, :, mine], causal)[:, 0] @ v[..., mine])
    return torch.cat(mixed, -1) @ w_out.T
