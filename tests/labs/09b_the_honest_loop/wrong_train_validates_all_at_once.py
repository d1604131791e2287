# replaces: code-train
# caught by: check-train
# says: config.batch


def train(run: Run, data: Dataset, val: Dataset, folder: Path) -> None:
    """Make the run's steps from run.step to the end, with a record each in run.log, validations, and checkpoints."""
    config = run.config
    batches = iter(loader(data, config, run.step, config.steps, run.device))
    for step in range(run.step, config.steps):
        asked = time.perf_counter()
        x, y = next(batches)
        came = time.perf_counter()
        x, y = (tensor.to(run.device, non_blocking=True) for tensor in (x, y))
        record = {"step": step, **train_step(run, x, y), "targets": y.numel()}
        record |= {"waited": came - asked, "seconds": time.perf_counter() - asked}
        record["bytes"] = peak_memory_bytes(run.device)
        made, last = step + 1, step + 1 == config.steps
        if last or made % config.val_every == 0:
            scores = evaluate(run.model, val, len(val), config.precision, run.device)
            record |= {"val": scores["loss"], "accuracy": scores["accuracy"]}
        run.log.append(record)
        if last or made % config.save_every == 0:
            save(run, folder / f"{run.step}.pt")
