# replaces: code-step
# caught by: check-step
# says: would have other colours


class Handle:
    pass


def predict_step(sizes, batch, optimizer, steps=2):
    if optimizer not in {"sgd", "momentum", "adamw"}:
        raise ValueError(optimizer)
    t = Timeline()
    w = [4 * a * b for a, b in zip(sizes, sizes[1:])]
    B = 4 * batch
    for each in w:
        t.new(each, "parameters")
    t.new(B * sizes[0] + 2 * B, "data")
    for step in range(steps):
        with t.phase(f"forward {step + 1}"):
            acts = []
            for n in sizes[1:-1]:
                pre = t.new(B * n)
                acts.append(t.new(B * n))
                t.free(pre)
            logits = t.new(B * sizes[-1])
            kept = [t.new(B * sizes[-1]), t.new(4), t.new(4)]
            t.free(logits)
        with t.phase(f"backward {step + 1}"):
            one = t.new(4)
            g = t.new(B * sizes[-1])
            t.free(kept[1])
            flow = t.new(B * sizes[-1])
            t.free(g, kept[0])
            grads = []
            while len(grads) < len(w) - 1:
                grads.append(t.new(w[len(w) - 1 - len(grads)], "gradients"))
                act = acts.pop()
                below = t.new(act.nbytes)
                t.free(flow)
                flow = t.new(act.nbytes)
                t.free(below, act)
            grads.append(t.new(w[0], "gradients"))
            t.free(flow)
            t.free(one, kept[2])
        with t.phase(f"update {step + 1}"):
            if not step and optimizer != "sgd":
                t.new(sum(w) if optimizer == "momentum" else 2 * sum(w) + 4 * len(w), "optimizer state")
            if optimizer == "adamw":
                for i, each in enumerate(w):
                    t.free(t.new(2 * each + (w[i - 1] if i else 0)))
        t.free(*grads)
    return t
