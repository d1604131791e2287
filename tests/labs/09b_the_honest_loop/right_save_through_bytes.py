# replaces: code-save


import io


def save(run, path):
    held = io.BytesIO()
    parts = [run.model.state_dict(), run.optimizer.state_dict(), run.scaler.state_dict()]
    torch.save([asdict(run.config), parts, list(run.log), rng_state()], held)
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False) as file:
        file.write(held.getbuffer())
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def load(run, path):
    config, parts, log, random = torch.load(io.BytesIO(Path(path).read_bytes()), map_location="cpu", weights_only=True)
    wrong = [name for name, value in vars(run.config).items() if config.get(name) != value]
    if wrong:
        raise ValueError(f"another config: {', '.join(wrong)} differ")
    for part, state in zip((run.model, run.optimizer, run.scaler), parts):
        part.load_state_dict(state)
    run.log[:] = log
    set_rng_state(random)
