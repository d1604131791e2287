"""A checkpoint that many ranks write together: a folder with each rank's shards, loadable on any number of ranks.

torch.distributed.checkpoint writes the shards, and a pickle that says where each is. It verifies neither, and its own
reader runs any code in that pickle. Here manifest.json lists the SHA-256 of every file, and the folder's name contains
the manifest's; all files are verified before any is read. The digest is not a signature: a forged file can have the right
one. So an unpickler that knows torch's dozen metadata classes, and refuses any other name, reads the pickle;
torch.load(weights_only=True) reads the shards, as in torch.distributed.checkpoint, and the separate file with everything
that is not a tensor.
"""

import hashlib
import io
import json
import os
import pickle
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.tensor import DTensor

MANIFEST, REST = "manifest.json", "rest.pt"
_PLACEHOLDER = "held in parts"  # key of a placeholder for a sharded tensor in REST
_KNOWN = {
    *(("torch.distributed.checkpoint.metadata", name) for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    )),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(("torch", name) for name in ("Size", "float64", "float32", "bfloat16", "float16", "int64", "int32", "uint8", "bool")),
    *(("torch", name) for name in ("complex64", "complex128")),
    ("torch.serialization", "_get_layout"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")),  # its folder
}  # fmt: skip


class Damaged(ValueError):
    """The bytes of a checkpoint are not those that were saved."""


def in_parts(state: object) -> bool:
    """Whether any tensor in these nested containers is sharded over ranks."""
    return any(isinstance(leaf, DTensor) for leaf in _leaves(state))


def write(folder: Path, state: dict, first: bool) -> None:
    """Write `state` into the empty `folder`: each rank its shards, the `first` also everything else. A collective.

    Raises RuntimeError if it cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    rest = _extract_tensors(state, "", tensors)
    writer = dcp.FileSystemWriter(folder, sync_files=True)
    writer.fs = _ExistingFolder()
    try:
        dcp.save(tensors, storage_writer=writer)
        if first:
            with open(folder / REST, "wb") as file:
                torch.save(rest, file)
                file.flush()
                os.fsync(file.fileno())
    except dcp.CheckpointException as error:  # derives from BaseException only: `except Exception` would miss it
        raise RuntimeError(f"torch.distributed.checkpoint could not write it: {error}") from error


class _ExistingFolder(FileSystem):
    """Never makes a folder: the target exists, and if the user has removed it, it must not be made again."""

    def mkdir(self, path) -> None: ...


def seal(folder: Path) -> str:
    """Write the manifest, with the SHA-256 of every file. Returns the SHA-256 of the manifest itself."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    content = json.dumps(files, indent=2).encode()
    with open(folder / MANIFEST, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def verify(folder: Path, digest: str) -> None:
    """Raises ValueError unless the manifest's digest starts with `digest` and the files are exactly those that it lists."""
    manifest = folder / MANIFEST
    if not manifest.is_file() or not sha256(manifest).startswith(digest):
        raise Damaged(f"{folder.name} is damaged: its manifest is missing or not the one that was written")
    listed = json.loads(manifest.read_text())
    found = {path.name for path in folder.iterdir()} - {MANIFEST}
    if wrong := sorted(listed.keys() ^ found):
        raise Damaged(f"{folder.name} is damaged: {', '.join(wrong)} missing or not in its manifest")
    if wrong := [name for name in listed if sha256(folder / name) != listed[name]]:
        raise Damaged(f"{folder.name} is damaged: {', '.join(wrong)} changed since it was written")


def read(folder: Path) -> dict:
    """The whole state in a verified folder, with full tensors on the CPU. Not a collective; never runs code from a file.

    Raises ValueError if it holds anything but plain data.
    """
    try:
        reader = _Reader(folder)
        entries = reader.read_metadata().state_dict_metadata
        if not all(isinstance(entry, TensorStorageMetadata) for entry in entries.values()):
            raise ValueError("something in it is not a tensor")
        tensors = {name: torch.empty(entry.size, dtype=entry.properties.dtype) for name, entry in entries.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # that is what no_dist asks for
            dcp.load(tensors, storage_reader=reader, no_dist=True)
        rest = torch.load(folder / REST, map_location="cpu", weights_only=True)
    except (dcp.CheckpointException, Exception) as error:
        raise ValueError(f"{folder.name} is not a checkpoint of plain data: {error}") from error
    return _insert_tensors(rest, tensors)


class _Unpickler(pickle.Unpickler):
    """Makes objects of the classes in _KNOWN and of no others."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"its metadata use {module}.{name}, which no checkpoint needs")
        return super().find_class(module, name)


class _Reader(dcp.FileSystemReader):
    """torch's reader with a safe read_metadata: torch's own calls pickle.load."""

    def read_metadata(self, *arguments, **options) -> Metadata:
        metadata = _Unpickler(io.BytesIO((Path(self.path) / ".metadata").read_bytes())).load()
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _leaves(tree: object):
    if isinstance(tree, dict | list | tuple):
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(child)
    else:
        yield tree


def _extract_tensors(tree: object, path: str, tensors: dict[str, Tensor]) -> object:
    """The tree with its path in place of each sharded tensor; the tensors themselves go into `tensors`."""
    if isinstance(tree, DTensor):
        tensors[path] = tree
        return {_PLACEHOLDER: path}
    if isinstance(tree, dict):
        return {key: _extract_tensors(child, f"{path}/{key}", tensors) for key, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_extract_tensors(child, f"{path}/{i}", tensors) for i, child in enumerate(tree))
    return tree


def _insert_tensors(tree: object, tensors: dict[str, Tensor]) -> object:
    if isinstance(tree, dict):
        if tree.keys() == {_PLACEHOLDER}:
            return tensors[tree[_PLACEHOLDER]]
        return {key: _insert_tensors(child, tensors) for key, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_insert_tensors(child, tensors) for child in tree)
    return tree


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
