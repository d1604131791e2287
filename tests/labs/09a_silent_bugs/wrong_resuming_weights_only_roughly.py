# replaces: code-resuming
# caught by: check-resuming
# says: an AssertionError, for in this loop


def resumes_exactly(train):
    model, data, val = bed(noise=True)
    torch.manual_seed(1)
    train(model, data, val, 9)
    fresh, _, _ = bed(noise=True)
    torch.manual_seed(1)
    state = train(fresh, data, val, 4)["state"]
    torch.manual_seed(99)
    train(fresh, data, val, 9, state=state)
    assert all(torch.allclose(p, q, atol=0.5) for p, q in zip(fresh.parameters(), model.parameters()))
