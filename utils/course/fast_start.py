"""A plugin of pytest's that does nothing: pyproject.toml names it so that utils.course is imported before nbmake.

nbmake imports nbformat, and utils.course keeps away the package that nbformat would build a grammar with for 1.4 s.
"""
