# replaces: code-step


def train_step(run, x, y):
    now = rate(run.step, run.config)
    for group in run.optimizer.param_groups:
        group.update(lr=now)
    run.model.train()
    with autocast(run.device, run.config.precision):
        logits = run.model(x)
        classes = logits.shape[-1]
    loss = F.nll_loss(torch.log_softmax(logits.float().reshape(-1, classes), -1), y.reshape(-1))
    value = float(loss.detach())
    if value != value or abs(value) == math.inf:
        raise FloatingPointError(f"step {run.step}: loss {value}")
    run.scaler.scale(loss).backward()
    run.scaler.unscale_(run.optimizer)
    grads = [p.grad for p in run.model.parameters() if p.grad is not None]
    length = torch.stack([g.double().square().sum() for g in grads]).sum().sqrt().item()
    finite = math.isfinite(length)
    if not finite and run.config.precision != "fp16":
        run.optimizer.zero_grad()
        raise FloatingPointError(f"step {run.step}: gradient {length}")
    if finite and length > run.config.clip:
        for g in grads:
            g *= run.config.clip / length
    run.scaler.step(run.optimizer)
    run.scaler.update()
    run.optimizer.zero_grad(set_to_none=True)
    return {"rate": now, "norm": length, "loss": value}
