"""A run's folder, read: what is known of the run, and its weights. Nothing here writes, so the run may still train."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from utils.loop import checkpoint
from utils.loop.config import NOW_ARGUMENTS_OF_TRAIN, Config
from utils.loop.run_folder import best_weights
from utils.loop.schedule import BY_CONFIG


@dataclass(frozen=True)
class SavedRun:
    """What `read_run` returns. metadata: of run.json. records: of log.jsonl, in order."""

    path: Path
    metadata: dict
    records: list[dict]

    @property
    def labels(self) -> dict:
        """What `train` was given as labels, and the number of training examples."""
        return self.metadata["data"]

    def saved_steps(self, kind: str | None = "step") -> list[int]:
        """The steps of which it holds a checkpoint of this kind, "step" or "best", in order."""
        return [int(path.name.split("-")[1]) for path in checkpoint.find(self.path / "checkpoints", kind)]

    def weights(self, newest: bool = False) -> tuple[dict[str, Tensor], str]:
        """A state_dict and where it is from: that of the best validation, or of the newest checkpoint if `newest`, or if
        there was no validation yet. It holds the average of the weights, if the run keeps one.

        Raises FileNotFoundError if nothing was saved yet.
        """
        if best := self.saved_steps("best")[-1:] if not newest else []:
            return best_weights(self.path), f"step {best[0]:,}, the best validation{self._selected_at(best[0])}"
        saved = checkpoint.load_newest(self.path / "checkpoints", kind=None)
        if saved is None:
            raise FileNotFoundError(f"{self.path} holds no checkpoint yet: wait for the first, or lower save_every")
        why = "the newest" if newest else "the newest, since this run has not been validated yet"
        return saved["ema"] or saved["model"], f"step {saved['progress']['step']:,}, {why}"

    def _selected_at(self, step: int) -> str:
        """The number by which the best validation was selected, at this step."""
        name = self.metadata["config"].get("select", Config.select).partition(" ")[2]
        found = [record[name] for record in self.records if record["step"] == step and "val_loss" in record]
        return f", {'loss' if name == 'val_loss' else name} {found[-1]:.4f}" if found else ""

    def summary(self) -> dict[str, str]:
        """What a reader wants to know first: {what: a phrase}."""
        config, sessions = self.metadata["config"], self.metadata["sessions"]
        machine = sessions[-1]["fingerprint"] if sessions else {}
        settings = _unusual(config)
        if sessions and sessions[-1].get("inputs", {}).get("schedule", BY_CONFIG) != BY_CONFIG:
            settings["schedule"] = "by a function"
        last = {name: _last(self.records, name) for name in ("step", "loss", "val_loss")}
        best = self.saved_steps("best")[-1:]
        seconds, dollars = (self.metadata.get(name) or 0 for name in ("seconds", "dollars"))
        shown = {
            "run": f"{self.path}, step {last['step'] or 0:,} of {config['steps']:,}",
            "data": ", ".join(f"{name} {_short(value)}" for name, value in self.labels.items()),
            "config": ", ".join(f"{name} {value}" for name, value in settings.items()) or "all as by default",
            "hardware": f"{machine.get('hardware')}, {machine.get('threads')} threads, {machine.get('ranks', 1)} ranks, "
            f"torch {machine.get('torch')}, commit {machine.get('commit')}"
            + " and changes"
            * bool(machine.get("dirty")),
            "last losses": f"training {_nats(last['loss'])}, validation {_nats(last['val_loss'])}, in nats per target",
            "best": f"step {best[0]:,}{self._selected_at(best[0])}" if best else "no validation yet",
            "time": f"{seconds:,.0f} s in {len(sessions)} session{'s' * (len(sessions) != 1)}",
            "checkpoints": ", ".join(f"step {step:,}" for step in self.saved_steps()) or "none yet",
        }
        if dollars:
            per_hour = self.metadata.get(
                "dollars_per_hour", config.get("dollars_per_hour")
            )  # older versions: in the config
            shown["cost"] = f"${dollars:,.2f} at ${per_hour:g} an hour"
        return shown


def read_run(run: str | Path) -> SavedRun:
    """Raises ValueError if the folder `run` does not hold a run."""
    path = Path(run).expanduser()
    try:
        metadata = json.loads((path / "run.json").read_text())
        metadata["config"]["steps"], metadata["data"], metadata["sessions"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{run} does not hold a run ({error!r}): name the folder that train was given") from error
    log = path / "log.jsonl"
    whole = log.read_text().rpartition("\n")[0] if log.is_file() else ""  # the last line may be half written
    return SavedRun(path, metadata, [json.loads(line) for line in whole.splitlines()])


def _unusual(config: dict) -> dict:
    """The settings that are not what they are by default."""
    usual = asdict(Config())
    return {
        name: value
        for name, value in config.items()
        if name not in NOW_ARGUMENTS_OF_TRAIN and (name not in usual or usual[name] != value)
    }


def _last(records: list[dict], name: str) -> float | None:
    """The value of `name` in the last record that has one."""
    return next((record[name] for record in reversed(records) if record.get(name) is not None), None)


def _nats(loss: float | None) -> str:
    return "none yet" if loss is None else f"{loss:.4f}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"of {len(text):,} characters"
