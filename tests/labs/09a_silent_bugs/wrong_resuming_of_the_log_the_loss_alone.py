# replaces: code-resuming
# caught by: check-resuming
# says: not the loss alone


def resumes_exactly(train) -> None:
    model, data, val = bed(noise=True, adverse=True)
    torch.manual_seed(1)
    whole = train(model, data, val, 9)
    other, _, _ = bed(noise=True, adverse=True)
    torch.manual_seed(1)
    first = train(other, data, val, 4)
    train(other, data, val, 9, state=first["state"])
    fresh, _, _ = bed(noise=True, adverse=True)
    torch.manual_seed(99)
    second = train(fresh, data, val, 9, state=first["state"])
    for p, q in zip(fresh.parameters(), model.parameters(), strict=True):
        assert torch.equal(p, q), f"resumed {p}, in one piece {q}"
    told, parts = whole["log"]["loss"], first["log"]["loss"] + second["log"]["loss"]
    assert parts == told, f"resumed {parts}, in one piece {told}"
    for p, q in zip(second["best"].values(), whole["best"].values(), strict=True):
        assert torch.equal(p, q), f"best: resumed {p}, in one piece {q}"
