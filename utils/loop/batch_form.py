"""The form of a batch: a pair of trees with the examples first, and what a model returns for it. What is not is refused."""

from collections.abc import Mapping
from dataclasses import is_dataclass

from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from utils.data.trees import Tree, named_leaves, shortened, tensors
from utils.loop.metrics import KnownLoss


def pair_of(batch: object, name: str, data: Dataset) -> tuple[Tree, Tree]:
    """x and y of a batch. Raises ValueError unless it is a pair of trees of tensors."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        shown = f"a {type(batch).__name__}"
        if isinstance(batch, Mapping):
            shown += f" with {', '.join(map(str, batch))}"
        if isinstance(batch, tuple | list):
            shown += f" of {', '.join(type(part).__name__ for part in batch)}"
        raise ValueError(
            f"{name}: an example must be a pair (x, y); two of them came as {shown}{_advice_on_pairs(batch, data)}"
        )
    for part, tree in zip("xy", batch, strict=True):
        _require_tree(tree, part, name)
        if not tensors(tree):
            raise ValueError(
                f"{name}: an example must be a pair (x, y), and {part} holds no tensor ({shortened(tree)})"
            )
    return tuple(batch)


def _require_tree(tree: Tree, part: str, name: str) -> None:
    """Raises ValueError for a leaf that is neither a tensor nor None."""
    for place, leaf in named_leaves(tree, part):
        if leaf is None or isinstance(leaf, Tensor):
            continue
        kind = type(leaf).__name__
        if is_dataclass(leaf):
            move = f"have torch know it:\n    torch.export.register_dataclass({kind})"
        elif isinstance(leaf, Mapping):
            move = f"make it a dict, dict({place})"
        elif isinstance(leaf, str | bytes):
            move = "leave it out of the examples, or make numbers of it"
        else:
            move = "make it a tensor with one entry for each example, or a dict of such"
        raise ValueError(
            f"{name}: an example must be a pair (x, y) of tensors or numbers, or dicts, lists and tuples of them, but "
            f"{place} is {shortened(leaf)}, of type {kind}: {move}"
        )


def _advice_on_pairs(batch: object, data: Dataset) -> str:
    """The lines that make pairs (x, y) of examples of another form, and lose none of their numbers."""
    if isinstance(batch, tuple | list) and len(batch) > 2:
        return _collate("batch[:-1], batch[-1]", "examples")
    if isinstance(batch, Tensor):
        return _collate("batch, batch", "examples")
    if isinstance(batch, tuple | list) and len(batch) == 1 and isinstance(batch[0], Tensor):
        return _collate("batch[0], batch[0]", "examples")
    if not isinstance(batch, Mapping):
        return ""
    numbers = [name for name in batch if all(isinstance(leaf, Tensor) for leaf in tree_leaves(batch[name]))]
    y = next((name for name in ("labels", "label", "targets", "target", "y") if name in numbers), None)
    others = tuple(name for name in numbers if name != y)
    if not others:
        return ""
    x = f"batch[{others[0]!r}]" if y and len(others) == 1 else f"{{name: batch[name] for name in {others!r}}}"
    examples = "examples"
    if _has_lists_of_numbers(data):
        examples = f"[{{name: torch.as_tensor(row[name]) for name in {tuple(numbers)!r}}} for row in examples]"
    return _collate(f"{x}, batch[{y!r}]" if y else f"{x}, {x}", examples)


def _collate(pair: str, examples: str) -> str:
    return f""". Say what of them is x, which the model gets, and what is y, and pass collate=collate:
    def collate(examples):
        batch = torch.utils.data.default_collate({examples})
        return {pair}"""


def _has_lists_of_numbers(data: Dataset) -> bool:
    """Whether an example holds a list of numbers, which torch would not stack to a tensor (B, n) but to n of (B,)."""
    if hasattr(data, "collate") or getattr(data, "pure", False):
        return False
    nodes = [data[0]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list) and node and all(isinstance(part, int | float) for part in node):
            return True
        nodes += node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple) else []
    return False


def advice_on_calling(data: Dataset, x: Tree) -> str:
    """What to do about a model that does not take a tree."""
    if isinstance(x, Tensor):
        return ""
    if _has_lists_of_numbers(data):
        return LISTS_AS_TENSORS
    if not isinstance(x, dict | list | tuple):
        return ". It is called with x as it is"
    stars, by = ("**", "by name") if isinstance(x, dict) else ("*", "one by one")
    return f""". It is called with x as it is, a {type(x).__name__}. If it takes its parts {by}, pass Unpacked(model):
    class Unpacked(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, x):
            return self.model({stars}x)"""


LISTS_AS_TENSORS = """. Lists of numbers came as lists of tensors, one for each place. For one tensor, pass collate=collate:
    from torch.utils._pytree import tree_map
    def collate(examples):
        is_list = lambda part: isinstance(part, list)
        rows = [tree_map(torch.as_tensor, row, is_leaf=is_list) for row in examples]
        return torch.utils.data.default_collate(rows)"""


def check_outputs(outputs: Tree, recognised: KnownLoss | None, what: str) -> None:
    """Raises ValueError unless a model's outputs are a tree with tensors; and one tensor, for a loss that takes no more."""
    if isinstance(outputs, Tensor):
        return
    returned = f"the model returns a {type(outputs).__name__} ({what})"
    if recognised:
        raise ValueError(
            f"{returned}, and this loss takes one tensor: it must return one tensor{_wrapper_advice(outputs)}\n"
            "or pass a loss of your own, (outputs, targets) → (sum, count), that reads what it needs of them"
        )
    if tensors(outputs):
        return
    if is_dataclass(outputs):
        raise ValueError(
            f"{returned}: have torch know it:\n    torch.export.register_dataclass({type(outputs).__name__})"
        )
    raise ValueError(
        f"{returned}: it must return one tensor, or tensors in a dict, a tuple or a list{_wrapper_advice(outputs)}"
    )


def _wrapper_advice(outputs: object) -> str:
    """The lines that take one tensor out of what a model returns."""
    attributes = [name for name, value in getattr(outputs, "__dict__", {}).items() if isinstance(value, Tensor)]
    if hasattr(outputs, "logits") or attributes:
        part = ".logits" if hasattr(outputs, "logits") else f".{attributes[0]}"
    elif isinstance(outputs, dict) and outputs:
        part = f"[{'logits' if 'logits' in outputs else next(iter(outputs))!r}]"
    elif isinstance(outputs, tuple | list) and len(outputs):
        part = "[0]"
    else:
        return ""
    return f"""; a wrapper takes it out:
    class Wrapped(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, x):
            return self.model(x){part}"""


# ---- the batch comes first -------------------------------------------------------------------------------------------


def check_batch(x: Tree, y: Tree, examples: int, name: str = "the data") -> None:
    """Raises ValueError unless the first axis of every tensor in x and y counts the examples of this batch."""
    if all(leaf.dim() and len(leaf) == examples for tree in (x, y) for leaf in tensors(tree)):
        return
    came = f"{name}: {examples} example{'s' * (examples != 1)} came as"
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        raise ValueError(
            f"{came} x {tuple(x.shape)} and y {tuple(y.shape)}: the first "
            f"axis of both must count the examples, since batches are cut along it{_batch_first(x, y, examples)}"
        )
    wrong = [
        (place, leaf)
        for place, leaf in [*named_leaves(x, "x"), *named_leaves(y, "y")]
        if isinstance(leaf, Tensor) and not (leaf.dim() and len(leaf) == examples)
    ]
    place, leaf = wrong[0]
    advice = ""
    if leaf.dim() > 1 and leaf.shape[1] == examples and _may_be_assigned_to(x) and _may_be_assigned_to(y):
        moves = "".join(f"\n        {place} = {place}.transpose(0, 1)" for place, _ in wrong)
        advice = BATCH_FIRST_IN_TREES.format(moves=moves)
    raise ValueError(
        f"{came} {place} of shape {tuple(leaf.shape)}: the first axis of every tensor in x and y must count the examples, "
        f"since batches are cut along it{advice or ': turn it in collate, and have the model turn it back'}"
    )


def _batch_first(x: Tensor, y: Tensor, examples: int) -> str:
    """The lines that put the examples first, where they are axis 1 of x, or of y and then of the outputs."""
    turns = []
    for tensor in (x, y):
        is_first = tensor.dim() > 0 and len(tensor) == examples
        if not is_first and (tensor.dim() < 2 or tensor.shape[1] != examples):
            return ""
        turns.append("" if is_first else ".transpose(0, 1)")
    turn_x, turn_y = turns
    return f""". Where time comes first, pass BatchFirst(model) and collate=batch_first:
    def batch_first(examples):
        x, y = collate(examples)
        return x{turn_x}, y{turn_y}
    class BatchFirst(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, x):
            return self.model(x{turn_x}){turn_y}"""


def _may_be_assigned_to(tree: Tree) -> bool:
    """Whether every leaf can be replaced in its place, which a tuple does not allow."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return (tree is None or isinstance(tree, Tensor | dict | list)) and all(map(_may_be_assigned_to, parts))


BATCH_FIRST_IN_TREES = """. Where time comes first, pass collate=batch_first, and have the model put it back:
    def batch_first(examples):
        x, y = collate(examples){moves}
        return x, y"""
