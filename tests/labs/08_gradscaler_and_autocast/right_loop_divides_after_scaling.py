# replaces: code-loop


def train(model, optimizer, scaler, schedule, steps, max_norm, low, loss_function=F.cross_entropy, max_skips=16):
    loss, norm, rate, scale, skipped = notes = [], [], [], [], []
    for batches in steps:
        for p in model.parameters():
            p.grad = None
        losses = []
        scale.append(scaler.factor)
        rate.append(optimizer.param_groups[0]["lr"])
        for x, y in batches:
            with CachedAutocast(low):
                value = loss_function(model(x), y)
            losses.append(value.detach() / len(batches))
            (scaler.scale(value) / len(batches)).backward()
        scaler.unscale(optimizer)
        norm.append(float(nn.utils.clip_grad_norm_(model.parameters(), max_norm)))
        skipped.append(not scaler.step(optimizer))
        loss.append(float(sum(losses)))
        scaler.update()
        if not skipped[-1]:
            schedule.step()
        elif len(skipped) >= max_skips and all(skipped[-max_skips:]):
            raise FloatingPointError(f"stopped after {max_skips} skipped steps")
    return dict(zip(["loss", "norm", "rate", "scale", "skipped"], notes))
