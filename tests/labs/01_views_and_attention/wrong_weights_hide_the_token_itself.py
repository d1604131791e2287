# replaces: code-weights
# caught by: check-weights
# says: got nan
# says: let each token see itself


def attention_weights(q, k, causal=False):
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(), float("-inf"))
    return scores.softmax(-1).nan_to_num(0) if not causal else scores.softmax(-1)
