# replaces: code-resuming


def resumes_exactly(train):
    def start():
        torch.manual_seed(5)
        return bed(noise=True, adverse=True)

    model, data, val = start()
    whole = train(model, data, val, 8)
    for cut in (3, 5, 7):
        one, _, _ = start()
        first = train(one, data, val, cut)
        state = first["state"]
        endings = []
        for run in (one, bed(noise=True)[0], bed()[0]):
            torch.rand(17)
            noisy = copy.deepcopy(model)
            noisy.load_state_dict(run.state_dict())
            target = run if run is one else noisy
            result = train(target, data, val, 8, state=state)
            endings.append((result, target))
        for result, ended in endings:
            if any(not torch.equal(p, q) for p, q in zip(ended.parameters(), model.parameters())):
                raise AssertionError("weights")
            if {k: first["log"][k] + result["log"][k] for k in whole["log"]} != whole["log"]:
                raise AssertionError("log")
            if any(not torch.equal(result["best"][k], whole["best"][k]) for k in whole["best"]):
                raise AssertionError("best")
