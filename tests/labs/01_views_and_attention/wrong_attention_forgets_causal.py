# replaces: code-attention
# caught by: check-attention
# says: token 0 sees itself alone


def attention(x, w_qkv, w_out, heads, causal=False):
    q, k, v = (split_heads(part, heads) for part in (x @ w_qkv.T).chunk(3, dim=-1))
    return merge_heads(attention_weights(q, k) @ v) @ w_out.T
