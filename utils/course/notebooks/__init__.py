"""Notebooks as files: reading, tidying, executing and judging them; labs and their starters."""
