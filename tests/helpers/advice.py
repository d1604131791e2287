"""Advice is run: what a message tells someone to write is done to the call that the message was about."""

import ast
import itertools
import re
import textwrap
from collections.abc import Callable
from dataclasses import fields, replace
from inspect import signature

import pytest
import torch

from utils.loop import Config, train

READ: list[str] = []  # the messages that tests of this process have read
SETTINGS = {field.name for field in fields(Config)}
ARGUMENTS = signature(train).parameters


def read(message: object) -> str:
    """A message that is followed; it is noted in READ."""
    READ.append(str(message))
    return READ[-1]


def refusal(call: dict, *words: str, kind: type[Exception] = ValueError, function: Callable = train) -> str:
    """The message with which function(**call) fails; it holds these words."""
    with pytest.raises(kind) as error:
        function(**call)
    assert all(word in str(error.value) for word in words), error.value
    return read(error.value)


def programs(message: str) -> list[str]:
    """The programs in a message: its blocks of lines that begin with four spaces."""
    blocks = itertools.groupby(message.splitlines(), lambda line: line.startswith("    "))
    return [textwrap.dedent("\n".join(lines)) for is_code, lines in blocks if is_code]


def expressions(message: str, name: str) -> list[str]:
    """What a message sets `name` to in its sentences: "8" of "start again with accumulation=8, or on more ranks"."""
    sentences = "\n".join(line for line in message.splitlines() if not line.startswith("    "))
    places = re.finditer(rf"\b{re.escape(name)} ?= ?", sentences)
    return [_longest_expression(sentences[place.end() :].partition("\n")[0]) for place in places]


def _longest_expression(text: str) -> str:
    words = text.split(" ")
    for count in range(len(words), 0, -1):
        shortened = " ".join(words[:count]).rstrip(".,;:")
        for candidate in (shortened, shortened.rstrip(")")):  # Config(compile=True)
            try:
                tree = ast.parse(candidate, mode="eval").body
            except SyntaxError:
                continue
            if not isinstance(tree, ast.Tuple):
                return candidate
    raise AssertionError(f"no expression begins {text!r}")


def followed(
    message: str,
    call: dict,
    *names: str,
    program: int | None = None,
    number: int = 0,
    model: str | None = None,
    **theirs: object,
) -> dict:
    """The call of `train` as someone changes it who does what the message says.

    program: which of its programs to run first. names: what to set as its sentences say, at the `number`-th place: an
    argument of train, or a field of its config. model: what they call the model to pass, "Wrapped(model)" say. theirs: other
    names that the message speaks of.
    """
    here = {"torch": torch, "Config": Config, "data": call["train_data"], **call, **theirs}
    if program is not None:
        exec(programs(message)[program], here)
    call = {name: here[name] for name in call}  # a program may bind them anew
    if model is not None:
        call["model"] = eval(model, here)
    for name in names:
        value = eval(expressions(message, name)[number], here)
        if name in SETTINGS and not (name in ARGUMENTS and callable(value)):  # optimizer may be either
            call["config"] = replace(call["config"], **{name: value})
        else:
            call[name] = value
    return call
