"""A checkpoint that many ranks write together: a folder of their parts of each tensor, loadable on any number of ranks.

torch.distributed.checkpoint writes the parts, and a pickle that says where each lies. It checks no byte of either, and its
own reader runs whatever code stands in that pickle. Here every file's SHA-256 stands in manifest.json, and the folder's name
holds that of the manifest; all of it is verified before anything is read. The digest is not a signature: a file made on
purpose can carry a right one. So the pickle is read by an unpickler that knows torch's dozen classes for this and refuses
any other name, the parts by torch.load(weights_only=True), which is what torch.distributed.checkpoint uses for tensors, and
what is not a tensor lies in a file of its own, read in the same way.
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
_PLACE = "held in parts"  # the key that stands in the rest for a tensor
_KNOWN = {
    *(("torch.distributed.checkpoint.metadata", name) for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    )),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(("torch", name) for name in ("Size", "float64", "float32", "bfloat16", "float16", "int64", "int32", "uint8", "bool")),
    ("torch.serialization", "_get_layout"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")),  # its folder
}  # fmt: skip


def in_parts(state: object) -> bool:
    """Whether some tensor in these nested containers lies in parts on several ranks."""
    return any(isinstance(leaf, DTensor) for leaf in _leaves(state))


def write(folder: Path, state: dict, first: bool) -> None:
    """Write `state` into the empty `folder`, each rank its parts, the `first` also the rest. A collective.

    Raises RuntimeError if it cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    rest = _taken_apart(state, "", tensors)
    writer = dcp.FileSystemWriter(folder, sync_files=True)
    writer.fs = _Given()
    try:
        dcp.save(tensors, storage_writer=writer)
        if first:
            with open(folder / REST, "wb") as file:
                torch.save(rest, file)
                file.flush()
                os.fsync(file.fileno())
    except dcp.CheckpointException as error:  # not an Exception: it would pass every handler
        raise RuntimeError(f"torch.distributed.checkpoint could not write it: {error}") from error


class _Given(FileSystem):
    """Makes no folder: the one to write to is there, and if somebody removed it, it is not to be made anew."""

    def mkdir(self, path) -> None: ...


def seal(folder: Path) -> str:
    """List every file with its SHA-256 in the manifest; the manifest's own is returned."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    content = json.dumps(files, indent=2).encode()
    with open(folder / MANIFEST, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def verify(folder: Path, digest: str) -> None:
    """Raises ValueError unless the manifest has this digest (its beginning), and the files are those that it lists."""
    manifest = folder / MANIFEST
    if not manifest.is_file() or not sha256(manifest).startswith(digest):
        raise ValueError(f"{folder.name} is damaged: its manifest is missing or not the one that was written")
    listed = json.loads(manifest.read_text())
    found = {path.name for path in folder.iterdir()} - {MANIFEST}
    if wrong := sorted(listed.keys() ^ found):
        raise ValueError(f"{folder.name} is damaged: {', '.join(wrong)} missing or not in its manifest")
    if wrong := [name for name in listed if sha256(folder / name) != listed[name]]:
        raise ValueError(f"{folder.name} is damaged: {', '.join(wrong)} changed since it was written")


def read(folder: Path) -> dict:
    """The whole state in a verified folder, tensors on the CPU; no rank needs another for it. Never runs code from it.

    Raises ValueError if it holds anything but plain data.
    """
    try:
        reader = _Reader(folder)
        kept = reader.read_metadata().state_dict_metadata
        if not all(isinstance(about, TensorStorageMetadata) for about in kept.values()):
            raise ValueError("something in it is not a tensor")
        tensors = {name: torch.empty(about.size, dtype=about.properties.dtype) for name, about in kept.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # that is what no_dist asks for
            dcp.load(tensors, storage_reader=reader, no_dist=True)
        rest = torch.load(folder / REST, map_location="cpu", weights_only=True)
    except (dcp.CheckpointException, Exception) as error:
        raise ValueError(f"{folder.name} is not a checkpoint of plain data: {error}") from error
    return _put_together(rest, tensors)


class _Unpickler(pickle.Unpickler):
    """Makes objects of the classes in _KNOWN, and of no other."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"its metadata ask for {module}.{name}, which no checkpoint needs")
        return super().find_class(module, name)


class _Reader(dcp.FileSystemReader):
    """torch's reader, whose own read_metadata is pickle.load."""

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


def _taken_apart(tree: object, path: str, tensors: dict[str, Tensor]) -> object:
    """The tree with its path in place of each tensor that is held in parts; these go to `tensors`."""
    if isinstance(tree, DTensor):
        tensors[path] = tree
        return {_PLACE: path}
    if isinstance(tree, dict):
        return {key: _taken_apart(child, f"{path}/{key}", tensors) for key, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_taken_apart(child, f"{path}/{i}", tensors) for i, child in enumerate(tree))
    return tree


def _put_together(tree: object, tensors: dict[str, Tensor]) -> object:
    if isinstance(tree, dict):
        if tree.keys() == {_PLACE}:
            return tensors[tree[_PLACE]]
        return {key: _put_together(child, tensors) for key, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_put_together(child, tensors) for child in tree)
    return tree


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
