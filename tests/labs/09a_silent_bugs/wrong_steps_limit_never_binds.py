# replaces: code-steps
# caught by: check-steps
# says: the limit must bind


def steps_follow_the_plan(train) -> None:
    model, (x, y), val = bed()
    for t, step in enumerate(watch(train, model, (x, y), val, steps=9, clip=50.0, lr=0.1, warmup=5).steps):
        rows = [i - 1 for i in step.ids]
        wanted = batch_gradient(model, step.weights, x[rows], y[rows])
        norm = math.sqrt(sum((g.square().sum().item() for g in wanted)))
        for got, want in zip(step.gradients, wanted, strict=True):
            want = want * min(1, 50.0 / norm)
            assert torch.allclose(got, want, rtol=0.0001, atol=1e-08), f"step {t}: {got} in place of {want}"
        planned = 0.1 * min((t + 1) / 5, math.sqrt(5 / (t + 1)))
        assert math.isclose(step.rate, planned, rel_tol=1e-09), f"step {t}: rate {step.rate} in place of {planned}"
