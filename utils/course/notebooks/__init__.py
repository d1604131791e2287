"""Notebooks as files: read, tidied, executed, judged; labs and the starters made from them."""
