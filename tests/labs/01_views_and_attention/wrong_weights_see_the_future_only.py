# replaces: code-weights
# caught by: check-weights
# says: weights of exactly 0 for all keys after the query
# says: triu(1)


def attention_weights(q, k, causal=False):
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril(-1), float("-inf"))
    return scores.softmax(-1)
