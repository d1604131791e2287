"""Text from a model of characters, drawn one at a time."""

from collections.abc import Sequence

import torch
from torch import nn

from utils.loop.guards import eval_mode


def sample_text(
    model: nn.Module, prompt: str, alphabet: Sequence[str], length: int = 300, temperature: float = 1.0, seed: int = 0
) -> str:
    """`prompt`, and `length` more characters, each drawn from what the model expects after those before it.

    model: token ids (B, T) → logits (B, T, characters), with its longest T in `model.context`; token i is alphabet[i].
    temperature: the logits are divided by it. Below 1 the likely becomes likelier; 0 always takes the likeliest.
    The same seed draws the same text. Changes no module's mode and no random stream but its own.

    Raises ValueError for an empty prompt, a character that the alphabet lacks, and a length or temperature below 0.
    """
    number = {character: token for token, character in enumerate(alphabet)}
    if unknown := sorted(set(prompt) - number.keys()):
        raise ValueError(f"the prompt has {''.join(unknown)!r}, which the model has never seen: leave it out")
    if not prompt:
        raise ValueError("the prompt is empty: give the model a character to go on from")
    if length < 0 or not temperature >= 0:
        raise ValueError(f"length is {length} and temperature {temperature}: both must be at least 0")
    device, generator = next(model.parameters()).device, torch.Generator().manual_seed(seed)
    tokens = [number[character] for character in prompt]
    with eval_mode(model), torch.no_grad():
        for _ in range(length):
            logits = model(torch.tensor([tokens[-model.context :]], device=device))[0, -1].double().cpu()
            if temperature == 0:
                tokens.append(int(logits.argmax()))
            else:
                shares = (logits / temperature).softmax(0)
                tokens.append(int(torch.multinomial(shares, 1, generator=generator)))
    return "".join(alphabet[token] for token in tokens)
