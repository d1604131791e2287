# replaces: code-activations
# caught by: check-activations
# says: 32 before the activation if GELU


def kept_by_mlp(sizes, batch: int, activation: str = "relu", trained=None) -> int:
    """Bytes that autograd keeps of cross_entropy(mlp(x), y), parameters not counted, in float32."""
    linears = len(sizes) - 1
    trained = [True] * linears if trained is None else trained
    kept = 4 * batch * sizes[0] if trained[0] else 0
    for i in range(linears - 1):
        flows = any(trained)
        before = activation == "gelu" and flows
        after = trained[i + 1] or (activation == "relu" and flows)
        kept += 4 * batch * sizes[i + 1] * (before + after)
    return kept + (4 * batch * sizes[-1] + 8 * batch + 4 if any(trained) else 0)
