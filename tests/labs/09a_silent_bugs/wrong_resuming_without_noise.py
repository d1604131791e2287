# replaces: code-resuming
# caught by: check-resuming
# says: bed(noise=True)


def resumes_exactly(train):
    model, data, val = bed(adverse=True)
    whole = train(model, data, val, 9)
    other, _, _ = bed()
    first = train(other, data, val, 4)
    train(other, data, val, 9, state=first["state"])
    fresh, _, _ = bed()
    second = train(fresh, data, val, 9, state=first["state"])
    assert all(map(torch.equal, fresh.parameters(), model.parameters()))
    assert all(first["log"][name] + second["log"][name] == told for name, told in whole["log"].items())
    assert all(map(torch.equal, second["best"].values(), whole["best"].values()))
