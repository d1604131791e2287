"""Other frameworks, each in a small module after its own documentation: see requirements.txt for how to install them."""

from importlib import import_module

from peers.job import Loop

MODULES = ("with_fabric", "with_accelerate", "with_ignite", "with_lightning", "with_transformers")


def installed() -> tuple[dict[str, Loop], list[str]]:
    """The loops of the frameworks that are installed, by name, and the modules that miss theirs."""
    loops, missing = {}, []
    for name in MODULES:
        try:
            loops |= import_module(f"peers.{name}").LOOPS
        except ModuleNotFoundError as error:
            missing.append(f"{name} ({error.name} is not installed)")
    return loops, missing
