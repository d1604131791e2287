"""Receipts: what a run on a GPU verified, and whether it still holds."""
