# replaces: code-save
# caught by: check-save
# says: another folder


def save(run: Run, path: Path) -> None:
    """Write all that the next steps of `run` depend on to the file `path`: whole, or what was there stays."""
    state = {
        "config": asdict(run.config),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "log": run.log,
        "random": rng_state(),
    }
    temporary = Path(tempfile.mkdtemp()) / "part"
    torch.save(state, temporary)
    os.replace(temporary, path)


def load(run: Run, path: Path) -> None:
    """Bring `run` to where the file's was. Raises ValueError, naming the field, for another config; changes nothing then."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for field, value in asdict(run.config).items():
        if state["config"][field] != value:
            raise ValueError(f"{field} is {value!r}, and {state['config'][field]!r} in {path}")
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.log = state["log"]
    set_rng_state(state["random"])
