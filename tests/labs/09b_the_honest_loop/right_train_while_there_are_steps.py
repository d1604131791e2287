# replaces: code-train


def timed(batches):
    stream = iter(batches)
    while True:
        begun = time.monotonic()
        try:
            pair = next(stream)
        except StopIteration:
            return
        yield begun, time.monotonic() - begun, pair


def due(made, every, config):
    return made == config.steps or not made % every


def train(run, data, val, folder):
    config = run.config
    if run.step >= config.steps:
        return
    for begun, waited, (x, y) in timed(loader(data, config, run.step, config.steps, run.device)):
        record = train_step(run, x.to(run.device), y.to(run.device))
        record["seconds"] = time.monotonic() - begun
        record.update(step=run.step, targets=math.prod(y.shape), waited=waited, bytes=peak_memory_bytes(run.device))
        run.log.append(record)
        if due(run.step, config.val_every, config):
            scores = evaluate(run.model, val, config.batch, config.precision, run.device)
            record["val"], record["accuracy"] = scores["loss"], scores["accuracy"]
        if due(run.step, config.save_every, config):
            save(run, Path(folder, f"{run.step}.pt"))
