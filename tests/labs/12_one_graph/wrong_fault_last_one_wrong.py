# replaces: code-fault
# caught by: check-fault
# says: reset before each backend


def stage_at_fault(step, backends: dict, rounding: float = 1e-5) -> str | None:
    """The name of the first backend with which step(compile) returns other tensors than without; None if there is none."""

    def alike(a: Tensor, b: Tensor) -> bool:
        if a.shape != b.shape:
            return False
        finite = a.isfinite() & b.isfinite()
        if not (finite | (a == b) | (a.isnan() & b.isnan())).all():
            return False
        a, b = a[finite].double(), b[finite].double()
        return bool((a - b).norm() <= rounding * b.norm())

    plain = step(lambda function: function)
    for name, backend in reversed(backends.items()):
        torch.compiler.reset()
        try:
            tensors = step(lambda function, backend=backend: torch.compile(function, backend=backend))
        except Exception:
            return name
        if len(tensors) != len(plain) or not all(alike(a, b) for a, b in zip(tensors, plain, strict=True)):
            return name
    return None
