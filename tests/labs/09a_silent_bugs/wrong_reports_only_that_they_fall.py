# replaces: code-reports
# caught by: check-reports
# says: an AssertionError, for in this loop


def reports_are_true(train):
    log = watch(train, *bed(), steps=60, clip=0.05).result["log"]
    assert log["loss"][-1] < log["loss"][0] and log["val_loss"][-1] < 10
    assert all(map(math.isfinite, log["norm"] + log["rate"]))
