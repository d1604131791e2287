# replaces: code-fault


def stage_at_fault(step, backends, rounding=1e-5):
    def wrong(got, want):
        if got.shape != want.shape:
            return True
        odd = ~(got.isfinite() & want.isfinite())
        if not torch.equal(torch.nan_to_num(got[odd], 7.0), torch.nan_to_num(want[odd], 7.0)):
            return True
        if not torch.equal(got[odd].isnan(), want[odd].isnan()):
            return True
        distance = torch.linalg.vector_norm(torch.where(odd, 0, got - want).double())
        return not distance <= rounding * torch.linalg.vector_norm(torch.where(odd, 0, want).double())

    plain = step(lambda function: function)
    for name in backends:
        torch._dynamo.reset()

        def compiler(function, name=name):
            return torch.compile(function, backend=backends[name])

        try:
            found = step(compiler)
        except Exception:
            return name
        if len(found) != len(plain) or any(map(wrong, found, plain)):
            return name
