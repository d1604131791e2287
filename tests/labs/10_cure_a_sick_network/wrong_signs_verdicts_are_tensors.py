# replaces: code-signs
# caught by: check-signs
# says: also of what .all() returns


def vital_signs(model: nn.Module, x: Tensor) -> list[dict]:
    signs, handles = [], []

    def rms(tensor):
        return tensor.double().square().mean().sqrt().item()

    def listen(name):
        def hook(module, inputs, output):
            if isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
                sign = {"name": name, "rms_in": rms(inputs[0]), "rms_out": rms(output), "largest": output.max().item()}
                sign |= {"sound_in": inputs[0].isfinite().all(), "sound_out": output.isfinite().all()}
                signs.append(sign)

        return hook

    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(listen(name)))
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return signs
