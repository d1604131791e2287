# replaces: code-signs
# caught by: check-signs
# says: 'name'


def vital_signs(model, x):
    signs, handles = [], []
    for name, module in model.named_modules():
        if not list(module.children()):

            def hook(module, inputs, output):
                t, u = inputs[0], output
                signs.append(
                    {
                        "name": name,
                        "rms_in": t.double().square().mean().sqrt().item(),
                        "rms_out": u.double().square().mean().sqrt().item(),
                        "largest": u.max().item(),
                        "sound_in": t.isfinite().all().item(),
                        "sound_out": u.isfinite().all().item(),
                    }
                )

            handles.append(module.register_forward_hook(hook))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return signs
