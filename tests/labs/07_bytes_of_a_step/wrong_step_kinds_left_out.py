# replaces: code-step
# caught by: check-step
# says: the phases are right and the kinds are not


def predict_step(sizes, batch: int, optimizer: str, steps: int = 2) -> Timeline:
    """The Timeline of so many training steps of a perceptron without biases.

    Its phases are "forward 1", "backward 1", "update 1", "forward 2", …; ValueError for an optimizer not in the text.
    """
    if optimizer not in ("sgd", "momentum", "adamw"):
        raise ValueError(f"no prediction for the optimizer {optimizer!r}: sgd, momentum or adamw")
    timeline = Timeline()
    new, free = timeline.new, timeline.free
    shapes = [(narrow, wide) for wide, narrow in itertools.pairwise(sizes)]
    weights = [4 * math.prod(shape) for shape in shapes]
    outputs = [4 * batch * narrow for narrow, _ in shapes]
    for nbytes in weights:
        new(nbytes, "temporaries")
    new(4 * batch * sizes[0], "data")
    new(8 * batch, "data")
    for step in range(1, steps + 1):
        with timeline.phase(f"forward {step}"):
            hidden = []
            for nbytes in outputs[:-1]:
                linear = new(nbytes, "temporaries")
                hidden.append(new(nbytes, "activations"))
                free(linear)
            logits = new(outputs[-1], "temporaries")
            shares = new(outputs[-1], "activations")
            loss, number = new(4, "temporaries"), new(4, "activations")
            free(logits)
        with timeline.phase(f"backward {step}"):
            one = new(4, "temporaries")
            picked = new(outputs[-1], "temporaries")
            free(number)
            flowing = new(outputs[-1], "temporaries")
            free(shares, picked)
            gradients = []
            for i in reversed(range(len(weights))):
                gradients.append(new(weights[i], "gradients"))
                if i > 0:
                    below = new(outputs[i - 1], "temporaries")
                    free(flowing)
                    flowing = new(outputs[i - 1], "temporaries")
                    free(hidden[i - 1], below)
            free(flowing, one, loss)
        with timeline.phase(f"update {step}"):
            if step == 1:
                new(held_bytes(shapes, optimizer)["state"], "activations")
            if optimizer == "adamw":
                last = new(0, "temporaries")
                for nbytes in weights:
                    root, divided = new(nbytes, "temporaries"), new(nbytes, "temporaries")
                    free(root, last)
                    last = divided
                free(last)
        free(*gradients)
    return timeline
