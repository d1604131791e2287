"""Plain values to bytes and back: JSON for types and structure, raw bytes for the data of tensors. Never pickle.

What crosses: None, bool, int, float, str, tensors of the dtypes below, and lists, tuples and dicts of these.
A tensor arrives dense on the CPU, with its dtype, shape and bits; strides, device, gradient and class stay behind. NumPy's
scalars and arrays, torch.Size and Parameters become the corresponding plain value; anything else becomes an
`Unserializable`, which shows what the value was and equals only itself.
"""

import json
import math
import struct
from dataclasses import dataclass

import numpy as np
import torch

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
        torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
DEEPEST = 20  # levels of nested containers
MOST = 100_000  # values in one message, including those inside containers
LONGEST_HEAD = 16 << 20  # bytes of a message without the data of tensors: enough for MOST values and long texts
LONGEST_REPR = 120  # characters of an Unserializable's text
HEAD = struct.Struct(">Q")  # the length of the JSON in bytes


@dataclass(frozen=True, eq=False)
class Unserializable:
    """Stands for a value that cannot be serialized. Equal only to itself."""

    text: str

    def __eq__(self, other) -> bool:
        return self is other  # never calls the __eq__ of `other`

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.text


def dump(value, strict: bool = False) -> bytes:
    """Serialize `value`. A part that cannot be serialized becomes an Unserializable; with `strict` it raises ValueError.

    Also raises ValueError for more than MOST values, and for texts that are too long.
    """
    blobs: list[bytes] = []
    count = 0

    def packed(value, depth: int):
        nonlocal count
        count += 1
        if count > MOST:
            raise ValueError(f"more than {MOST:,} values in one answer: put the numbers into a tensor")
        value = _plain(value)
        if depth > DEEPEST and type(value) in (list, tuple, dict):
            value = Unserializable(f"containers more than {DEEPEST} deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in (list, tuple):
            return {type(value).__name__: [packed(item, depth + 1) for item in value]}
        if type(value) is dict and not all(_is_key(key) for key in value):
            value = _unserializable(value)
        if type(value) is dict:
            return {"dict": [[packed(key, depth + 1), packed(item, depth + 1)] for key, item in value.items()]}
        if type(value) is torch.Tensor:
            blobs.append(_bytes(value))
            name = str(value.dtype).removeprefix("torch.")
            return {"tensor": [name, list(value.shape), len(blobs[-1])]}
        if strict:
            raise ValueError(f"{value.text} cannot cross: {__doc__.splitlines()[2]}")
        return {"other": value.text}

    head = json.dumps(packed(value, 0), allow_nan=False).encode()
    if len(head) > LONGEST_HEAD:
        raise ValueError(f"{len(head):,} bytes of text and numbers in one answer; at most {LONGEST_HEAD:,} cross")
    return b"".join([HEAD.pack(len(head)), head, *blobs])


def load(message: bytes):
    """The value in a message. Raises ValueError for any message that `dump` could not have written."""
    try:
        (size,) = HEAD.unpack_from(message)
        head, blobs = message[HEAD.size : HEAD.size + size], memoryview(message)[HEAD.size + size :]
        if size > LONGEST_HEAD:
            raise ValueError(f"{size:,} bytes of JSON; at most {LONGEST_HEAD:,} are accepted")
        if len(head) != size:
            raise ValueError(f"{size} bytes of JSON announced, {len(head)} received")
        parsed = json.loads(head, parse_constant=_reject_constant)
    except (struct.error, RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a message: {error}") from error
    used = 0

    def unpacked(item, depth: int):
        nonlocal used
        if item is None or type(item) in (bool, int, float, str):
            return item
        if type(item) is not dict or len(item) != 1:
            raise ValueError("not a message: a value of unknown form")
        ((kind, body),) = item.items()
        if depth > DEEPEST and kind in ("list", "tuple", "dict"):
            raise ValueError(f"not a message: containers more than {DEEPEST} deep")
        if kind in ("list", "tuple") and type(body) is list:
            items = [unpacked(each, depth + 1) for each in body]
            return items if kind == "list" else tuple(items)
        if kind == "dict" and type(body) is list and all(type(pair) is list and len(pair) == 2 for pair in body):
            pairs = [(unpacked(key, depth + 1), unpacked(each, depth + 1)) for key, each in body]
            if all(_is_key(key) for key, _ in pairs):
                return dict(pairs)
        if kind == "float" and body in ("nan", "inf", "-inf"):
            return float(body)
        if kind == "other" and type(body) is str:
            return Unserializable(body)
        if kind == "tensor":
            name, shape, nbytes = _tensor_head(body)
            blob = blobs[used : used + nbytes]
            used += nbytes
            return _tensor(name, shape, blob)
        raise ValueError(f"not a message: a value of kind {kind[:40]!r}")

    value = unpacked(parsed, 0)
    if used != len(blobs):
        raise ValueError(f"not a message: {len(blobs) - used} bytes are left over")
    return value


def _plain(value):
    """`value` as exactly one of the types that can be serialized; an Unserializable if none fits."""
    if value is None or type(value) in (bool, int, float, str, list, tuple, dict):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item()) if isinstance(value, np.number | np.bool_ | np.str_) else _unserializable(value)
    if isinstance(value, np.ndarray):
        try:
            return torch.from_numpy(np.array(value, order="C"))
        except TypeError:
            return _unserializable(value)
    if isinstance(value, torch.Tensor):
        dense = value.layout == torch.strided and value.device.type != "meta" and not value.is_quantized
        if not dense or str(value.dtype).removeprefix("torch.") not in DTYPES:
            return _unserializable(value)
        return value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().cpu()
    for kind in (tuple, list, dict, bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return _unserializable(value)


def _unserializable(value) -> Unserializable:
    name = type(value).__name__
    try:
        shown = " ".join(repr(value).split())
    except Exception as error:  # __repr__ is code of the student
        shown = f"whose repr raises {type(error).__name__}"
    return Unserializable(f"{name}: {shown}"[:LONGEST_REPR])


def _bytes(tensor: torch.Tensor) -> bytes:
    if not tensor.numel():
        return b""
    row = tensor.reshape(-1).clone(
        memory_format=torch.contiguous_format
    )  # clone: a tensor of one element may have any stride
    return row.view(torch.uint8).numpy().tobytes()


def _tensor_head(body) -> tuple[str, list[int], int]:
    """The dtype's name, the shape and the byte count that a message states for a tensor. ValueError if they do not agree."""
    if type(body) is not list or len(body) != 3 or type(body[0]) is not str or type(body[1]) is not list:
        raise ValueError("not a message: a tensor of unknown form")
    name, shape, nbytes = body
    sizes_valid = all(type(size) is int and size >= 0 for size in [*shape, nbytes])
    if name not in DTYPES or not sizes_valid or len(shape) > 64 or nbytes != math.prod(shape) * DTYPES[name].itemsize:
        raise ValueError(f"not a message: {nbytes!r} bytes for a tensor {name[:40]!r} of shape {shape[:64]!r}")
    return name, shape, nbytes


def _tensor(name: str, shape: list[int], blob: memoryview) -> torch.Tensor:
    if len(blob) != math.prod(shape) * DTYPES[name].itemsize:
        raise ValueError(f"not a message: {len(blob)} bytes received for a tensor of shape {shape}")
    if not blob:
        return torch.empty(shape, dtype=DTYPES[name])
    raw = torch.frombuffer(bytearray(blob), dtype=torch.uint8)
    return (raw != 0 if name == "bool" else raw.view(DTYPES[name])).reshape(shape)


def _is_key(value) -> bool:
    if isinstance(value, tuple):
        return all(_is_key(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | np.number | np.bool_)


def _reject_constant(name: str):
    raise ValueError(f"not a message: the number {name}")
