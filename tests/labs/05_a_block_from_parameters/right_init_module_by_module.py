# replaces: code-init


def initialise(model, seed):
    generator = torch.Generator("cpu")
    generator.manual_seed(seed)

    def fill(p, std):
        with torch.no_grad():
            fresh = torch.empty(p.shape)
            fresh.normal_(0, std, generator=generator)
            p.data.copy_(fresh)

    for part in model.modules():
        if isinstance(part, LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (LayerNorm, Linear)):
            nn.init.zeros_(part.bias)
    fill(model.positions, 0.02)
    fill(model.tokens, 0.02)
    for block in model.blocks:
        width = block.up.weight.shape[1]
        share = 1 / math.sqrt(2 * len(model.blocks))
        for linear, std in (
            (block.down, 1.5336 * share / math.sqrt(4 * width)),
            (block.up, 1 / math.sqrt(width)),
            (block.attention.out, share / math.sqrt(width)),
            (block.attention.qkv, 1 / math.sqrt(width)),
        ):
            fill(linear.weight, std)
