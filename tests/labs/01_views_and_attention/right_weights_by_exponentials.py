# replaces: code-weights


def attention_weights(q, k, causal=False):
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    powers = powers.tril() if causal else powers
    return powers / powers.sum(-1, keepdim=True)
