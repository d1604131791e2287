# replaces: code-init
# caught by: check-init
# says: other memory


def initialise(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    branches = 2 * len(model.blocks)
    for name, p in model.named_parameters():
        if p.ndim == 1:
            p.data.fill_(0 if name.endswith("bias") else 1)
            continue
        if name in ("tokens", "positions"):
            std = 0.02
        elif name.endswith(("qkv.weight", "up.weight")):
            std = p.shape[1] ** -0.5
        else:
            std = (gain(F.gelu) if name.endswith("down.weight") else 1) / math.sqrt(p.shape[1] * branches)
        p.data = std * torch.randn(p.shape, generator=generator)
