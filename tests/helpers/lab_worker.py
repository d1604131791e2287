"""A process that holds a student's code and answers questions over its pipes: what a grader does, without its sandbox.

Frames of eight bytes for the length and one message each. {"cells": [(id, source), …]} runs these in a new
namespace; {"code": …, "inputs": {…}} evaluates. The answer is {"value": …} or {"raised": (kinds, text)}.
"""

import linecache
import struct
import subprocess
import sys

from utils.lab import Ask, evaluate, exception_from, kinds_and_text_of, plain_values

LENGTH = struct.Struct(">Q")


def send(stream, value) -> None:
    message = plain_values.dump(value)
    stream.write(LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream):
    """The next value; None where the stream ends."""
    head = stream.read(LENGTH.size)
    return plain_values.load(stream.read(*LENGTH.unpack(head))) if head else None


class RemoteAsk(Ask):
    """The same questions to another process, which holds `cells`: (id, source) of code, run in this order."""

    def __init__(self, worker: subprocess.Popen, cells: list[tuple[str, str]]):
        self.worker = worker
        self._reply({"cells": cells})

    def _value(self, code: str, inputs: dict):
        return self._reply({"code": code, "inputs": inputs})

    def _reply(self, request: dict):
        send(self.worker.stdin, request)
        reply = receive(self.worker.stdout)
        if "raised" in reply:
            raise exception_from(*reply["raised"])
        return reply["value"]


def start() -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def run(cells: list[tuple[str, str]]) -> dict:
    """The namespace that code cells leave behind."""
    namespace: dict = {"__name__": "__main__"}
    for name, source in cells:
        # A kernel does the same: inspect.getsource finds the text of a cell.
        linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(keepends=True), f"<{name}>")
        exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace


def serve(requests, replies) -> None:
    namespace: dict = {}
    while (request := receive(requests)) is not None:
        try:
            if "cells" in request:
                namespace = run(request["cells"])
                send(replies, {"value": None})
            else:
                send(replies, {"value": evaluate(request["code"], request["inputs"], namespace)})
        except Exception as error:
            send(replies, {"raised": kinds_and_text_of(error)})


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what the code prints is no answer
    serve(sys.stdin.buffer, answers)
