# replaces: code-clip


def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters]
    norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
    if not torch.isfinite(norm):
        raise RuntimeError(f"gradients of norm {norm.item()}")
    factor = (max_norm / (norm + 1e-6)).clamp(max=1)
    for p in parameters:
        p.grad = p.grad * factor
    return norm
