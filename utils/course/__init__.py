"""The machinery that runs the course: reads and executes lectures, keeps the ledger. Nothing imports it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the course: where notebooks, solutions, utils and tests are
