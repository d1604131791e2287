"""Other frameworks, each in a small module after its own documentation: see requirements.txt for how to install them."""

from importlib import import_module
from types import ModuleType

MODULES = ("with_fabric", "with_lightning", "with_accelerate", "with_ignite", "with_transformers")


def installed() -> tuple[list[ModuleType], list[str]]:
    """The modules of the frameworks that are installed, and the names of those that miss theirs."""
    modules, missing = [], []
    for name in MODULES:
        try:
            modules.append(import_module(f"peers.{name}"))
        except ModuleNotFoundError as error:
            missing.append(f"{name} ({error.name} is not installed)")
    return modules, missing
