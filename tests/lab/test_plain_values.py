"""What crosses between processes arrives bit for bit, and nothing else is taken for a message."""

import json
import math
from collections import namedtuple

import numpy as np
import pytest
import torch

from utils.lab import plain_values
from utils.lab.plain_values import HEAD, Unserializable, dump, load


def across(value):
    return load(dump(value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(10**30),
        0.1,
        math.inf,
        -math.inf,
        "é\ud800",
        "",
        (),
        [],
        {},
        (1, [2.0, {"a": (None,)}]),
        {(1, "b"): 2},
    ],
)
def test_plain_values_arrive_as_they_are(value):
    back = across(value)
    assert back == value and type(back) is type(value) and repr(back) == repr(value)


def test_nan_arrives():
    assert math.isnan(across(math.nan))


@pytest.mark.parametrize("dtype", plain_values.DTYPES.values(), ids=plain_values.DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_tensors_arrive_bit_for_bit(dtype, shape):
    count = math.prod(shape) * dtype.itemsize
    raw = torch.arange(17, 17 + count, dtype=torch.uint8) if dtype != torch.bool else torch.arange(count) % 2 == 1
    tensor = (raw.view(dtype) if count else torch.empty(0, dtype=dtype)).reshape(shape)
    back = across({"t": [tensor]})["t"][0]
    assert type(back) is torch.Tensor and back.dtype == dtype and back.shape == shape
    assert back.reshape(-1).view(torch.uint8).tolist() == raw.view(torch.uint8).tolist()


def test_a_view_arrives_dense_and_without_its_history():
    wide = torch.arange(12.0, requires_grad=True).view(3, 4)
    for view in (wide.T[1:], wide.expand(2, 3, 4), wide[::3, 1:2], wide[:, :1]):
        back = across(view)
        assert torch.equal(back, view) and back.is_contiguous() and not back.requires_grad
        assert back.untyped_storage().nbytes() == 4 * back.numel()
    conjugate = torch.tensor([1 + 2j]).conj()
    assert across(conjugate).tolist() == [1 - 2j]


def test_what_stands_for_a_plain_value_arrives_as_it():
    Pair = namedtuple("Pair", "a b")
    assert across(torch.zeros(2, 3).shape) == (2, 3) and type(across(torch.Size([2]))) is tuple
    assert across(Pair(1, 2)) == (1, 2) and type(across(Pair(1, 2))) is tuple
    assert across([np.float64(0.5), np.int64(3), np.bool_(True), np.str_("x")]) == [0.5, 3, True, "x"]
    assert [type(value) for value in across([np.float32(0.5), np.bool_(True)])] == [float, bool]
    assert across(np.arange(6).reshape(2, 3)[:, ::-1]).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert type(across(torch.nn.Parameter(torch.ones(2)))) is torch.Tensor


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


class Another(torch.Tensor):
    """What is asked of it in order to send it is answered by something else."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.resolve_conj, torch.Tensor.resolve_neg, torch.Tensor.cpu):
            return torch.ones(2)
        return super().__torch_function__(function, types, args, kwargs or {})


def test_of_a_subclass_what_it_holds_crosses_and_not_what_it_says():
    assert across(torch.zeros(2).as_subclass(Another)).tolist() == [0, 0]


class Silent:
    def __repr__(self):
        raise SystemError("no")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Equal(), "Equal: <"),
        (torch.float32, "dtype: torch.float32"),
        ((n for n in ()), "generator"),
        (Silent(), "Silent: whose repr raises SystemError"),
        (torch.eye(2).to_sparse(), "Tensor"),
        (torch.empty(2, device="meta"), "Tensor"),
        (np.array([None]), "ndarray"),
        ({torch.float32: 1}, "dict"),
        (3j, "complex"),
    ],
)
def test_anything_else_arrives_as_what_it_was_and_equals_nothing(value, words):
    back = across([value])[0]
    assert type(back) is Unserializable and words in repr(back)
    assert not any(back == other for other in (value, 1, True, words, across([value])[0]))
    with pytest.raises(ValueError, match="cannot cross"):
        dump([value], strict=True)


def test_endless_and_huge_values_end():
    deep: list = [1]
    for _ in range(20):
        deep = [deep]
    assert across(deep) == deep and across([deep]) != [deep]
    ring: list = []
    ring.append(ring)
    assert "more than 20 deep" in str(across(ring))
    with pytest.raises(ValueError, match="100,000 values"):
        dump([0] * 100_001)
    with pytest.raises(ValueError, match="bytes of text"):
        dump("x" * (17 << 20))
    with pytest.raises(ValueError, match="bytes of JSON"):
        load(message(b'"' + b"x" * (17 << 20) + b'"'))


def message(head, blobs: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return HEAD.pack(len(text)) + text + blobs


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"\x00\x00",
        HEAD.pack(10) + b"1",
        HEAD.pack(2**63) + b"1",
        message(b"{"),
        message(b"NaN"),
        message(b"[" * 10_000 + b"]" * 10_000),
        message(b"\xff"),
        message([1, 2]),
        message({"list": 3}),
        message({"pickle": "x"}),
        message({"list": [], "tuple": []}),
        message({"float": "1e3"}),
        message({"other": 3}),
        message({"dict": [[1]]}),
        message({"dict": [[{"list": []}, 1]]}),
        message({"tensor": ["float32", [2], 8]}, b"1234567"),
        message({"tensor": ["float32", [2], 8]}, b"123456789"),
        message({"tensor": ["float32", [2], 4]}, b"1234"),
        message({"tensor": ["object", [1], 8]}, b"12345678"),
        message({"tensor": ["load", [1], 8]}, b"12345678"),
        message({"tensor": ["float32", [-1], -4]}),
        message({"tensor": ["float32", [True], 4]}, b"1234"),
        message({"tensor": ["float32", [2**62, 2**62], 0]}),
        message({"tensor": ["float32", 3, 12]}, b"1" * 12),
        message({"tensor": ["uint8", [1] * 65, 1]}, b"1"),
        message(json.loads('{"list":[' * 22 + "1" + "]}" * 22)),
    ],
)
def test_a_forged_message_is_refused(forged):
    with pytest.raises(ValueError):
        load(forged)


def test_a_bool_is_a_bool_whatever_the_byte():
    assert load(message({"tensor": ["bool", [3], 3]}, b"\x00\x01\x02")).tolist() == [False, True, True]
