# replaces: code-signs
# caught by: check-signs
# says: inner is no leaf


def vital_signs(model, x):
    signs, handles = [], []

    def listen(name):
        def hook(module, inputs, output):
            given = inputs[0]
            if not isinstance(given, Tensor) or not isinstance(output, Tensor):
                return
            signs.append(
                dict(
                    name=name,
                    rms_in=given.double().square().mean().sqrt().item(),
                    rms_out=output.double().square().mean().sqrt().item(),
                    largest=output.max().item(),
                    sound_in=bool(given.isfinite().all()),
                    sound_out=bool(output.isfinite().all()),
                )
            )

        return hook

    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_hook(listen(name)))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return signs
