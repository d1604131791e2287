"""The loop as a script.

    python -m utils train --run runs/first --data shakespeare --steps 2000 --lr 3e-3 --schedule cosine

The same command starts a run, resumes it after an interruption, and does nothing once it is finished. On n processes:

    torchrun --standalone --nproc-per-node=n -m -- utils train --run runs/first …
"""

import argparse
import hashlib
import sys
from dataclasses import fields
from pathlib import Path

from torch import nn

from utils.data.datasets import Splits, fashion_mnist, spiral, text_file, tiny_shakespeare
from utils.device import own_random_streams
from utils.distributed.ranks import started
from utils.loop.config import CHOICES, Config, field_docs
from utils.loop.train import Result, evaluate, train
from utils.models import CNN, GPT, MLP

MODELS = {
    "shakespeare": ("gpt",),
    "fashion": ("mlp", "cnn"),
    "spiral": ("mlp",),
}  # by data set, the default first; text files use the models of shakespeare


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m utils", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_train(commands.add_parser("train", help="train a small model; an unfinished run is resumed"))
    options = parser.parse_args(arguments)
    try:
        return run_train(options)
    except KeyboardInterrupt:
        print(f"interrupted; the same command resumes from the newest checkpoint in {options.run}", file=sys.stderr)
        return 130
    except (ValueError, FloatingPointError, RuntimeError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def add_train(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
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
        parser.add_argument(option_of(field.name), default=field.default, help=docs[field.name], **kind)


def option_of(field: str) -> str:
    """The command-line option of a field of Config: log_every → --log-every."""
    return "--" + field.replace("_", "-")


def run_train(options: argparse.Namespace) -> int:
    ranks = started()
    config = Config(**{field.name: getattr(options, field.name) for field in fields(Config)})
    splits = load_data(options.data, options.context)
    with own_random_streams(config.seed):
        model = build_model(options, splits)
    labels = {"data": digest_of(options.data), "context": options.context, "dropout": options.dropout}
    result = train(model, splits.train, splits.val, config, run=options.run, labels=labels)
    if ranks.first:
        report(result, splits, Path(options.run))
    return 0


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


def build_model(options: argparse.Namespace, splits: Splits) -> nn.Module:
    fitting = MODELS.get(options.data, ("gpt",))
    name = options.model or fitting[0]
    if name not in fitting:
        raise ValueError(f"--model {name} does not fit --data {options.data}: choose one of {', '.join(fitting)}")
    if not 0 <= options.dropout < 1:
        raise ValueError(f"--dropout {options.dropout} must be at least 0 and below 1")
    if name == "gpt":
        return GPT(len(splits.names), options.context, dropout=options.dropout)
    if name == "cnn":
        return CNN(dropout=options.dropout)
    sizes = (784, 256, 256, 10) if options.data == "fashion" else (2, 128, 128, 3)
    return MLP(sizes, options.dropout)


def report(result: Result, splits: Splits, run: Path) -> None:
    """Print the results, one line each. The test set is used here only, once, after every selection."""
    print(
        f"{result.steps} steps, {result.skipped} skipped, in {run}{' (stopped early)' if result.stopped_early else ''}"
    )
    if result.best:
        print(f"best validation loss {result.best['val_loss']:.4f} nats, after step {result.best['step']}")
    if splits.test is not None:
        scores = evaluate(result.ema or result.model, splits.test)
        print(f"test accuracy {scores.accuracy:.4f} on {scores.targets} examples, at the last step")
    if not splits.real:
        print("this was stand-in data: these figures say nothing about the real data")


if __name__ == "__main__":
    sys.exit(main())
