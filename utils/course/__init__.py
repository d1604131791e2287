"""The machinery that runs the course: reads and executes lectures, keeps the ledger. No notebook imports it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the course: where notebooks, solutions, utils and tests are

# nbformat imports jsonschema, which imports this package to check addresses with letters from any alphabet. The package
# builds a grammar for 1.4 s, in each process that runs a notebook, and no notebook's format asks for it.
sys.modules.setdefault("rfc3987_syntax", None)
