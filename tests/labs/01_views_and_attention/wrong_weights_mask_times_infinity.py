# replaces: code-weights
# caught by: check-weights
# says: got nan
# says: 0 · inf is nan


def attention_weights(q, k, causal=False):
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
    if causal:
        scores = scores + torch.ones_like(scores).triu(1) * float("-inf")
    return scores.softmax(-1)
