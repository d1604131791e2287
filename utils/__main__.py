"""The loop as a script, and what one does with a run afterwards.

    python -m utils train --run runs/first --data shakespeare --steps 2000 --lr 3e-3 --schedule cosine
    python -m utils show --run runs/first
    python -m utils generate --run runs/first --prompt "ROMEO:"
    python -m utils export --run runs/first --to first.pt2
    python -m utils break 1

The first command starts a run, resumes it after an interruption, and does nothing once it is finished. The others read the
folder of a run, finished or not. The last one plants a silent bug of the zoo in a small run. To train on n processes:

    torchrun --standalone --nproc-per-node=n -m -- utils train --run runs/first …
"""

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

from utils.atomic_write import write_bytes
from utils.data.datasets import Splits, fashion_mnist, spiral, text_file, tiny_shakespeare
from utils.device import own_random_streams
from utils.distributed.ranks import current_ranks
from utils.loop.config import CHOICES, Config, field_docs
from utils.loop.log import MEASURED
from utils.loop.sampling import sample_text
from utils.loop.saved_run import SavedRun, read_run
from utils.loop.training import Result, evaluate, train
from utils.models import CNN, GPT, MLP

MODELS = {
    "shakespeare": ("gpt",),
    "fashion": ("mlp", "cnn"),
    "spiral": ("mlp",),
}  # by data set, the default first; text files use the models of shakespeare
SELECTIONS = ("min val_loss", "max val_accuracy")  # others need code that adds a number to the record
WORDS = {"val_loss": "validation loss", "val_accuracy": "validation accuracy"}
SHAPES = {"fashion": (1, 28, 28), "spiral": (2,)}  # of one example; that of a text is (T,), T up to the context


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return options.run_command(options)
    except KeyboardInterrupt:
        goes_on = f": {resumption(options.run)}" if options.command == "train" else ""
        print(f"interrupted{goes_on}", file=sys.stderr)
        return 130
    except (ValueError, FloatingPointError, RuntimeError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m utils", description=__doc__.split("\n")[0])
    commands = whole.add_subparsers(dest="command", required=True)
    for name, (add, told) in COMMANDS.items():
        add(
            commands.add_parser(
                name, help=told, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter
            )
        )
    return whole


# ---- train -----------------------------------------------------------------------------------------------------------


def add_train(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run_command=run_train)
    parser.add_argument("--run", required=True, metavar="DIR", help="folder of the run: log, checkpoints, metadata")
    parser.add_argument("--data", required=True, metavar="shakespeare|fashion|spiral|FILE", help="FILE: a text file")
    parser.add_argument("--model", choices=["mlp", "cnn", "gpt"], help="default: the first that fits the data")
    parser.add_argument("--context", type=int, default=64, help="context length of a GPT, in tokens")
    parser.add_argument("--dropout", type=float, default=0.0, help="dropout probability")
    docs = field_docs()
    for field in fields(Config):
        kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
        if field.name in CHOICES:
            kind = {"choices": CHOICES[field.name]}
        if field.name == "select":
            kind = {"choices": SELECTIONS}
        parser.add_argument(option_of(field.name), default=field.default, help=docs[field.name], **kind)
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, default=False, help="a progress bar in place of lines"
    )
    parser.add_argument("--dollars-per-hour", type=float, default=0.0, help="price of the machine, for the run's cost")
    parser.add_argument(
        "--peak-flops", type=float, default=0.0, help="peak FLOP/s, for MFU; 0: the GPU's published one"
    )


def option_of(field: str) -> str:
    """The command-line option of a field of Config: log_every → --log-every."""
    return "--" + field.replace("_", "-")


def run_train(options: argparse.Namespace) -> int:
    ranks = current_ranks()
    config = Config(**{field.name: getattr(options, field.name) for field in fields(Config)})
    splits = load_data(options.data, options.context)
    labels = labels_of(options, splits)
    with own_random_streams(config.seed):
        model = build_model(labels)
    say = printed if ranks.first else lambda text: None

    def say_record(record: dict, model: nn.Module) -> None:
        if "loss" in record:
            say(line_of(record, config.steps))

    say(
        f"{options.run}: {labels['model']} with {sum(p.numel() for p in model.parameters()):,} parameters, "
        f"{len(splits.train):,} examples, {config.steps:,} steps"
    )
    try:
        result = train(
            model,
            splits.train,
            splits.val,
            config,
            run=options.run,
            labels=labels,
            on_step=None if options.progress else say_record,
            progress=options.progress,
            dollars_per_hour=options.dollars_per_hour,
            peak_flops=options.peak_flops,
        )
    except SystemExit:  # a signal
        say(f"stopped by a signal: {resumption(options.run)}")
        raise
    if ranks.first:
        report(result, splits, Path(options.run))
    return 0


def printed(text: str) -> None:
    print(text, flush=True)  # a pipe or a file would hold it back


def line_of(record: dict, steps: int) -> str:
    """A log record as a line: "step 50/2,000   loss 2.4312   lr 0.003   gradient norm 1.2   8,123 targets/s   9 s left"."""
    step, measured = record["step"], record[MEASURED]
    loss = "none" if record["loss"] is None else f"{record['loss']:.4f}"
    return (
        f"step {step:,}/{steps:,}   loss {loss}   lr {record['lr']:.3g}   gradient norm {record['grad_norm']:.3g}   "
        f"{measured['targets_per_second']:,.0f} targets/s   {measured['seconds'] / step * (steps - step):,.0f} s left"
    )


def load_data(name: str, context: int) -> Splits:
    if name == "shakespeare":
        return tiny_shakespeare(context)
    if name == "fashion":
        return fashion_mnist()
    if name == "spiral":
        return spiral()
    if not Path(name).is_file():
        raise ValueError(f"--data {name!r} is neither shakespeare, fashion, spiral nor a file")
    return text_file(name, context)


def digest_of(data: str) -> str:
    """The name of a data set, or the digest of a text file: an edited file does not match the old run."""
    return data if data in MODELS else hashlib.sha256(Path(data).read_bytes()).hexdigest()[:16]


def labels_of(options: argparse.Namespace, splits: Splits) -> dict[str, str | float]:
    """What decides a run besides its config, and rebuilds its model: saved in run.json."""
    fitting = MODELS.get(options.data, ("gpt",))
    name = options.model or fitting[0]
    if name not in fitting:
        raise ValueError(f"--model {name} does not fit --data {options.data}: choose one of {', '.join(fitting)}")
    if not 0 <= options.dropout < 1:
        raise ValueError(f"--dropout {options.dropout} must be at least 0 and below 1")
    labels = {"data": digest_of(options.data), "model": name, "dropout": options.dropout, "context": options.context}
    return labels | ({"alphabet": "".join(splits.names)} if name == "gpt" else {})


def build_model(labels: dict) -> nn.Module:
    """The network that the labels of a run describe, with fresh weights."""
    dropout = labels["dropout"]
    if labels["model"] == "gpt":
        return GPT(len(labels["alphabet"]), labels["context"], dropout=dropout)
    if labels["model"] == "cnn":
        return CNN(dropout=dropout)
    return MLP((784, 256, 256, 10) if labels["data"] == "fashion" else (2, 128, 128, 3), dropout)


def report(result: Result, splits: Splits, run: Path) -> None:
    """Print the results, one line each. The test set is used here only, once, after every selection."""
    print(
        f"{result.steps} steps, {result.skipped} skipped, in {run}{' (stopped early)' if result.stopped_early else ''}"
    )
    if result.best:
        (name,) = result.best.keys() - {"step"}
        unit = " nats" if name == "val_loss" else ""
        print(f"best {WORDS.get(name, name)} {result.best[name]:.4f}{unit}, after step {result.best['step']}")
    if splits.test is not None:
        scores = evaluate(result.ema or result.model, splits.test)
        print(f"test accuracy {scores.accuracy:.4f} on {scores.targets} examples, at the last step")
    if not splits.real:
        print("this was stand-in data: these figures say nothing about the real data")


def resumption(run: str) -> str:
    """Where the same command goes on."""
    steps = read_run(run).saved_steps(None) if Path(run, "run.json").is_file() else []
    if not steps:
        return "nothing was saved yet; the same command starts again"
    return f"step {steps[-1]:,} is saved in {run}; the same command goes on from there"


# ---- show, generate, export ------------------------------------------------------------------------------------------


def add_reader(parser: argparse.ArgumentParser, command: Callable[[argparse.Namespace], int], weights: bool) -> None:
    parser.set_defaults(run_command=command)
    parser.add_argument("--run", required=True, metavar="DIR", help="folder of the run, finished or not")
    if weights:
        parser.add_argument("--newest", action="store_true", help="the newest weights, not those that validated best")


def add_show(parser: argparse.ArgumentParser) -> None:
    add_reader(parser, run_show, weights=False)


def run_show(options: argparse.Namespace) -> int:
    from utils.figures.loop import run_curves  # matplotlib takes a second to import
    from utils.figures.style import svg

    run = read_run(options.run)
    for what, text in run.summary().items():
        print(f"{what:<12} {text}")
    if run.records:
        picture = run.path / "curves.svg"
        write_bytes(picture, svg(run_curves(run.records, run.path.name)))
        print(f"{'curves':<12} {picture}")
    return 0


def add_generate(parser: argparse.ArgumentParser) -> None:
    add_reader(parser, run_generate, weights=True)
    parser.add_argument("--prompt", required=True, help="the text to go on from")
    parser.add_argument("--length", type=int, default=300, help="characters to write")
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1 safer, above 1 wilder; 0: no chance")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws another text")


def run_generate(options: argparse.Namespace) -> int:
    run, model = trained_model(options)
    if "alphabet" not in run.labels:
        raise ValueError(f"{options.run} was trained on {run.labels['data']}, not on a text: choose another run")
    alphabet = run.labels["alphabet"]
    print(sample_text(model, options.prompt, alphabet, options.length, options.temperature, options.seed))
    return 0


def add_export(parser: argparse.ArgumentParser) -> None:
    add_reader(parser, run_export, weights=True)
    parser.add_argument("--to", required=True, metavar="FILE", help="a new file; torch.export.load reads it")


def run_export(options: argparse.Namespace) -> int:
    file = Path(options.to)
    if file.exists() or file.suffix != ".pt2":
        raise ValueError(
            f"--to {file} {'exists' if file.exists() else 'is a name of another kind'}: name a new file.pt2"
        )
    run, model = trained_model(options)
    text, context = run.labels["model"] == "gpt", run.labels["context"]
    if text:
        example = torch.zeros(2, context, dtype=torch.int64)
        ranges = {0: Dim("batch"), 1: Dim("tokens", max=context) if context > 1 else None}
    else:
        example, ranges = torch.zeros(2, *SHAPES[run.labels["data"]]), {0: Dim("batch")}
    program = torch.export.export(model, (example,), dynamic_shapes=(ranges,))
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={"run.json": json.dumps(run.metadata)})
    write_bytes(file, content.getvalue())
    shape = f"token ids (B, T), T up to {context}" if text else f"x {('B', *example.shape[1:])}"
    print(f"{file}: the model takes {shape}. To run it without this package:")
    print(f"    import torch\n    model = torch.export.load({str(file)!r}).module()\n    print(model(x))")
    return 0


def trained_model(options: argparse.Namespace) -> tuple[SavedRun, nn.Module]:
    """A run of `train` above, and its model in eval mode. Says on stderr which weights it took.

    Raises ValueError for a run of a model that it does not know.
    """
    run = read_run(options.run)
    if missing := {"data", "model", "dropout", "context"} - run.labels.keys():
        raise ValueError(
            f"{options.run} does not say how to build its model (no {', '.join(sorted(missing))}): it is no run of python "
            "-m utils train. Build the model yourself, and load best_weights(folder) into it"
        )
    model = build_model(run.labels)
    weights, origin = run.weights(options.newest)
    model.load_state_dict(weights)
    print(f"weights of {origin}", file=sys.stderr)
    return run, model.eval()


# ---- break -----------------------------------------------------------------------------------------------------------


def add_break(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run_command=run_break)
    parser.add_argument("bug", nargs="?", help="number or name of a bug; without it, all of them are listed")


def run_break(options: argparse.Namespace) -> int:
    from utils.checks import breaking  # the other commands need no detectors

    if options.bug is None:
        print("\n".join(breaking.listing()))
        print("\npython -m utils break 1 plants the first in a small run, and shows what its detector says")
    else:
        print(breaking.report(breaking.find(options.bug)))
    return 0


COMMANDS = {
    "train": (add_train, "train a small model; an unfinished run is resumed"),
    "show": (add_show, "print what is known of a run, and draw its curves"),
    "generate": (add_generate, "write text with a model that was trained on one"),
    "export": (add_export, "write a model to a file that runs without its class"),
    "break": (add_break, "plant a silent bug in a small run, and hear its detector"),
}

if __name__ == "__main__":
    sys.exit(main())
