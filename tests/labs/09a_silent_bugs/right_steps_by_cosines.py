# replaces: code-steps


def steps_follow_the_plan(train):
    model, (x, y), val = bed()
    notes = watch(train, model, (x, y), val, 8, clip=0.02, lr=0.7, warmup=4)
    assert len(notes.steps) == 8
    for t in range(8):
        step = notes.steps[t]
        rows = [i - 1 for i in step.ids]
        flat, wanted = (
            torch.cat([g.flatten() for g in each])
            for each in (step.gradients, batch_gradient(model, step.weights, x[rows], y[rows]))
        )
        cosine = (flat @ wanted / flat.norm() / wanted.norm()).item()
        assert cosine > 1 - 1e-9 and abs(flat.norm().item() / 0.02 - 1) < 1e-3, (cosine, flat.norm())
        share = (t + 1) / 4 if t < 4 else (4 / (t + 1)) ** 0.5
        assert abs(step.rate - 0.7 * share) < 1e-9, step.rate
