# replaces: code-attention


def attention(x, w_qkv, w_out, heads, causal=False):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in F.linear(x, w_qkv).chunk(3, -1))
    return F.linear(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2), w_out)
