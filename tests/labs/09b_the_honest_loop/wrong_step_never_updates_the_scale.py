# replaces: code-step
# caught by: check-step
# says: each step ends with update()


def train_step(run: Run, x: Tensor, y: Tensor) -> dict[str, float]:
    """One step of the run: {"loss" per target, "norm" of the gradient before clipping, "rate"}; the log is not touched.

    Raises FloatingPointError, naming the step, before weights could change by a loss or (but for fp16) a norm that is not
    finite.
    """
    config = run.config
    run.model.train()
    run.optimizer.zero_grad()
    for group in run.optimizer.param_groups:
        group["lr"] = rate(run.step, config)
    with autocast(run.device, config.precision):
        logits = run.model(x)
    loss = F.cross_entropy(logits.float().flatten(0, -2), y.flatten())
    if not loss.isfinite():
        raise FloatingPointError(f"the loss of step {run.step} is {loss.item()}")
    run.scaler.scale(loss).backward()
    run.scaler.unscale_(run.optimizer)
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)
    if not run.scaler.is_enabled() and not norm.isfinite():
        raise FloatingPointError(f"the gradient of step {run.step} has a norm of {norm.item()}")
    run.scaler.step(run.optimizer)
    return {"loss": loss.item(), "norm": norm.item(), "rate": rate(run.step, config)}
