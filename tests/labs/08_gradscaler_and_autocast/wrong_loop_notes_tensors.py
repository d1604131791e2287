# replaces: code-loop
# caught by: check-loop
# says: a plain number or a bool


def train(model, optimizer, scaler, schedule, steps, max_norm, low, loss_function=F.cross_entropy, max_skips=16) -> dict:
    notes = {"loss": [], "norm": [], "rate": [], "scale": [], "skipped": []}
    skips = 0
    for batches in steps:
        rate, scale, total = (optimizer.param_groups[0]["lr"], scaler.factor, 0.0)
        optimizer.zero_grad()
        for x, y in batches:
            with CachedAutocast(low):
                loss = loss_function(model(x), y) / len(batches)
            scaler.scale(loss).backward()
            total += loss
        scaler.unscale(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        stepped = scaler.step(optimizer)
        scaler.update()
        if stepped:
            schedule.step()
        for name, value in zip(notes, (total, norm, rate, scale, not stepped), strict=True):
            notes[name].append(value)
        skips = 0 if stepped else skips + 1
        if skips == max_skips:
            raise FloatingPointError(f"{max_skips} updates in a row were skipped: look at the data and the rate")
    return notes
