"""Batches as trees: a tensor, or tensors in dicts, tuples and lists, nested as one likes, each with the batch first.

A tree is whatever torch takes for one (torch.utils._pytree): containers of Python, and classes that were registered, such as
the outputs of Hugging Face's models, or a dataclass by torch.export.register_dataclass. None may stand in it.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_unflatten,
)
from torch.utils.data import default_collate

Tree = object  # Tensor | dict[str, Tree] | tuple[Tree, ...] | list[Tree] | a registered class | None
STACKED_BY_TORCH = Tensor | np.ndarray | np.generic | int | float | str | bytes


def tensors(tree: Tree) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def map_tensors(function: Callable[[Tensor], object], tree: Tree) -> Tree:
    """The same tree, with function(tensor) in the place of each tensor."""
    return function(tree) if isinstance(tree, Tensor) else tree_map_only(Tensor, function, tree)


def to_device(tree: Tree, device: torch.device | str, non_blocking: bool = False) -> Tree:
    if isinstance(tree, Tensor):
        return tree.to(device, non_blocking=non_blocking)
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking), tree)


def pinned(tree: Tree) -> Tree:
    """In page-locked memory, where it lies in the memory of the CPU."""
    return map_tensors(lambda tensor: tensor.pin_memory() if tensor.device.type == "cpu" else tensor, tree)


def count_examples(tree: Tree) -> int:
    """Entries on the first axis of its first tensor."""
    return len(tensors(tree)[0])


def rows(tree: Tree, index: int | slice | list[int]) -> Tree:
    """The examples at `index`, of every tensor."""
    return map_tensors(lambda tensor: tensor[index], tree)


def split(tree: Tree, count: int) -> list[Tree]:
    """`count` trees: every tensor is cut along its first axis, as Tensor.tensor_split does."""
    if count == 1:
        return [tree]  # a nested tensor cannot be cut
    if isinstance(tree, Tensor):
        return list(tree.tensor_split(count))
    leaves, form = tree_flatten(tree)
    cut = [leaf.tensor_split(count) if isinstance(leaf, Tensor) else [leaf] * count for leaf in leaves]
    return [tree_unflatten([parts[number] for parts in cut], form) for number in range(count)]


def update_digest(digest: object, tree: Tree) -> None:
    """Feed a digest of hashlib with every tensor, bit for bit, and its place in the tree, which is "" for one alone."""
    for place, leaf in named_leaves(tree, ""):
        if isinstance(leaf, Tensor):
            for part in leaf.unbind() if leaf.is_nested else [leaf]:
                digest.update(f"{place}{part.dtype} {tuple(part.shape)}".encode())
                digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def named_leaves(tree: Tree, name: str) -> list[tuple[str, object]]:
    """[("x['mask']", tensor), …]: every leaf, also what is no tensor, and how to reach it from `name`."""
    try:
        return [(name + keystr(path), leaf) for path, leaf in tree_flatten_with_path(tree)[0]]
    except ValueError:  # a class that was registered without names for its parts
        return [(f"{name}, leaf {number},", leaf) for number, leaf in enumerate(tree_leaves(tree))]


def described(tree: Tree, name: str) -> str:
    """ "x (2, 5) torch.int64", or "x['ids'] (2, 5) torch.int64, x['mask'] (2, 5) torch.bool", for a message."""
    shown = [
        f"{place} {tuple(leaf.shape)} {leaf.dtype}" if isinstance(leaf, Tensor) else f"{place} a {type(leaf).__name__}"
        for place, leaf in named_leaves(tree, name)
    ]
    return ", ".join(shown)


def shortened(leaf: object) -> str:
    """A leaf for a message, on one line."""
    return " ".join(repr(leaf).split())[:60]


def stack(examples: list) -> Tree:
    """Examples of one form → a batch of that form: torch's default_collate, of every leaf alone where x or y are trees.

    So a pair within an example stays a pair, None stays None, and registered classes are stacked too.

    Raises ValueError if their forms differ.
    """
    first = examples[0]
    if not isinstance(first, tuple | list) or all(isinstance(part, STACKED_BY_TORCH) for part in first):
        return default_collate(examples)
    return tree_map(lambda *leaves: None if leaves[0] is None else default_collate(leaves), first, *examples[1:])
