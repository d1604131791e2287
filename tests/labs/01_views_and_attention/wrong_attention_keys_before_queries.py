# replaces: code-attention
# caught by: check-attention
# says: w_qkv = float32 tensor (36, 12)
# says: the order q, k, v


def attention(x, w_qkv, w_out, heads, causal=False):
    k, q, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
    return merge_heads(attention_weights(q, k, causal) @ v) @ w_out.T
