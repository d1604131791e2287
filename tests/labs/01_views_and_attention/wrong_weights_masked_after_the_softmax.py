# replaces: code-weights
# caught by: check-weights
# says: causal=True
# says: mask before the softmax


def attention_weights(q, k, causal=False):
    weights = (einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5).softmax(-1)
    return weights.tril() if causal else weights
