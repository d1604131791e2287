# replaces: code-weights
# caught by: check-weights
# says: expected 0.880797, got 0.982014
# says: divided by the root of D = 4


def attention_weights(q, k, causal=False):
    scores = einsum(q, k, "b h t d, b h s d -> b h t s")
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1)
