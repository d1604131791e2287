# replaces: code-steps
# caught by: check-steps
# says: no decay after the warm-up
# says: watch more steps than warmup


def steps_follow_the_plan(train) -> None:
    model, (x, y), val = bed()
    for t, step in enumerate(watch(train, model, (x, y), val, steps=3, clip=0.05, lr=0.1, warmup=4).steps):
        rows = [i - 1 for i in step.ids]
        wanted = batch_gradient(model, step.weights, x[rows], y[rows])
        norm = math.sqrt(sum(g.square().sum().item() for g in wanted))
        for got, want in zip(step.gradients, wanted, strict=True):
            assert torch.allclose(got, want * min(1, 0.05 / norm), rtol=1e-4, atol=1e-8), f"step {t}"
        assert math.isclose(step.rate, 0.1 * min((t + 1) / 4, math.sqrt(4 / (t + 1))), rel_tol=1e-9)
