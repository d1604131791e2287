"""What to say of data that cannot be indexed: the lines that train on them, and on the same examples.

A loader has settings that decide the experiment: its sampler, its batches, what it leaves out. The lines keep them.
"""

from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    default_collate,
)

CALLS = {  # how each argument is passed
    "train_data": "train(model, {data}, config=config{more})",
    "val_data": "train(model, train_data, {data}, config{more})",
    "data": "evaluate(model, {data}{more})",
}


def loader_message(loader: DataLoader, name: str) -> str:
    """name: of the argument that the loader was passed as."""
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return _streaming_loader(loader, name)
    own = "" if loader.collate_fn is default_collate else f", collate={name}.collate_fn"
    text = f"{name} is a DataLoader: pass its dataset; batches and their order are the loop's business"
    if loader.worker_init_fn is not None:
        text += ". Its worker_init_fn would not be called: what it opens, open in the dataset when it is first needed"
    if name != "train_data":
        lines, dataset = [], f"{name}.dataset"
        if loader.drop_last or not isinstance(loader.sampler, SequentialSampler | RandomSampler):
            lines = [f"indices = [index for batch in {name}.batch_sampler for index in batch]"]
            dataset = f"torch.utils.data.Subset({name}.dataset, indices)"
        return _with_lines(text, [*lines, CALLS[name].format(data=dataset, more=own)])
    settings = [f"batch_size={loader.batch_size}"] * (loader.batch_size is not None) + [f"workers={loader.num_workers}"]
    sampler, lines, order = loader.sampler, [], ""
    if _is_shuffled(loader):
        settings += ["drop_last=True"] * loader.drop_last
    elif isinstance(sampler, WeightedRandomSampler) and sampler.replacement and loader.batch_size is not None:
        lines = [
            "def weighted(step):  # draws of torch, NumPy and Python are seeded for each step",
            f"    return torch.multinomial({name}.sampler.weights, {loader.batch_size}, replacement=True)",
        ]
        order = ", order=weighted"
    else:
        text += ", unless you say which examples each step takes; without order= it shuffles"
        lines = ["from utils.data.own_order import order_of"]
        order = f", order=order_of({name}.batch_sampler, config.seed)"
    lines = [f"config = Config({', '.join(settings)})", *lines]
    return _with_lines(text, [*lines, CALLS[name].format(data=f"{name}.dataset", more=own + order)])


def _is_shuffled(loader: DataLoader) -> bool:
    """Whether every pass takes each example once, in a random order: what the loop does unasked."""
    sampler = loader.sampler
    if loader.batch_size is None:
        return False  # a batch sampler of the caller's own
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples == len(loader.dataset)
    return type(sampler) is DistributedSampler and sampler.shuffle  # the loop shares batches among ranks itself


def _streaming_loader(loader: DataLoader, name: str) -> str:
    batched = loader.batch_size is not None
    stream = f"{name}.dataset"
    if name != "train_data":
        return _held_out(loader, name, stream if batched else name, batched)
    text = (
        f"{name} is a DataLoader of a stream, which does not say its position. StatefulDataLoader, of torchdata, does; it "
        "takes the same arguments, and train takes it as it is. Without workers"
    )
    lines = [f"config = Config(batch_size={loader.batch_size}{', drop_last=True' * loader.drop_last})"] * batched
    own = "" if loader.collate_fn is default_collate or not batched else f", collate={name}.collate_fn"
    if not batched:
        stream = _positioned(name, batched)
    elif not says_its_position(loader.dataset):
        stream = _positioned(stream, batched)
    if stream.startswith("Positioned"):
        lines = [f"from utils.data.positioned import {stream.partition('(')[0]}", *lines]
    return _with_lines(text, [*lines, CALLS[name].format(data=stream, more=own)])


def _positioned(stream: str, of_examples: bool) -> str:
    return f"Positioned{'Examples' * of_examples}(lambda: {stream})"


def stream_message(data: object, name: str) -> str:
    """Of an iterable without a length or an index. name: of the argument that it was passed as."""
    of_examples = isinstance(data, IterableDataset)
    if name != "train_data":
        return _held_out(data, name, name, of_examples)
    text = (
        f"{name} is a {type(data).__name__} without a length or an index, and without state_dict and load_state_dict, by "
        "which a stream says its position: a resumed run could not go on where it was"
    )
    if of_examples:
        lines = [
            "from utils.data.positioned import PositionedExamples",
            CALLS[name].format(data=_positioned(name, True), more=""),
        ]
        return _with_lines(text + ". Its examples can be counted", lines)
    begin = getattr(data, "__name__", None)
    begin = begin if begin and begin.isidentifier() else "begin"
    lines = [
        "from utils.data.positioned import Positioned, PositionedExamples",
        f"stream = Positioned({begin})  # PositionedExamples, if it yields single examples",
        CALLS[name].format(data="stream", more=""),
    ]
    return _with_lines(text + f". What it yields can be counted, if {begin}() begins a new pass", lines)


def _held_out(data: object, name: str, stream: str, of_examples: bool) -> str:
    """Of a stream that is to be validated on, or evaluated."""
    text = (
        f"{name} is a {type(data).__name__} without a length or an index, and every validation covers the same examples, "
        "all of them: take a fixed number of a stream, once"
    )
    lines = ["from itertools import islice"]
    if of_examples:
        lines += [f"held_out = list(islice({stream}, 1000))"]
    else:
        lines += [f"held_out = [pair for x, y in islice({stream}, 20) for pair in zip(x, y)]  # of 20 batches"]
    return _with_lines(text, [*lines, CALLS[name].format(data="held_out", more="")])


def says_its_position(data: object) -> bool:
    return hasattr(data, "state_dict") and hasattr(data, "load_state_dict")


def _with_lines(text: str, lines: list[str]) -> str:
    return "\n    ".join([text + ":", *lines])
