# replaces: code-parameters


def gpt_parameters(layers, width, vocabulary, context):
    with torch.device("meta"):
        layer = torch.nn.TransformerEncoderLayer(width, 1, 4 * width)
        rest = [torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width), torch.nn.LayerNorm(width)]
    count = lambda module: sum(p.numel() for p in module.parameters())
    return layers * count(layer) + sum(map(count, rest))
