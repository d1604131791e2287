# replaces: code-steps
# caught by: check-steps
# says: its direction is not


def steps_follow_the_plan(train):
    for t, step in enumerate(watch(train, *bed(), steps=9, clip=0.05, lr=0.1, warmup=5).steps):
        norm = math.sqrt(sum(g.square().sum().item() for g in step.gradients))
        assert math.isclose(norm, 0.05, rel_tol=1e-4), norm
        assert math.isclose(step.rate, 0.1 * min((t + 1) / 5, math.sqrt(5 / (t + 1))), rel_tol=1e-9)
