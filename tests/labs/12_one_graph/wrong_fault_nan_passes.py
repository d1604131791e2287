# replaces: code-fault
# caught by: check-fault
# says: every comparison with NaN is False


def stage_at_fault(step, backends, rounding=1e-5):
    plain = step(lambda function: function)
    for name, backend in backends.items():
        torch.compiler.reset()
        try:
            tensors = step(lambda function, backend=backend: torch.compile(function, backend=backend))
        except Exception:
            return name
        if len(tensors) != len(plain):
            return name
        for a, b in zip(tensors, plain):
            if a.shape != b.shape or (a - b).norm() > rounding * b.norm():
                return name
    return None
