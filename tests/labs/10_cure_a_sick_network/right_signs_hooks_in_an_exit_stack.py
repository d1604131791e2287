# replaces: code-signs


import contextlib


@torch.inference_mode()
def vital_signs(model, x):
    signs = []

    def note(name, module, inputs, output):
        tensors = [t for t in (*inputs[:1], output) if isinstance(t, Tensor)]
        if len(tensors) == 2:
            into, out = (t.to(torch.float64).flatten() for t in tensors)
            sign = {"name": name, "largest": float(out.max())}
            for word, t in (("in", into), ("out", out)):
                sign[f"rms_{word}"] = float(torch.linalg.vector_norm(t) / math.sqrt(t.numel()))
                sign[f"sound_{word}"] = not bool((t.isnan() | t.isinf()).any())
            signs.append(sign)

    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                hook = lambda m, i, o, name=name: note(name, m, i, o)
                stack.enter_context(module.register_forward_hook(hook))
        model(x)
    return signs
