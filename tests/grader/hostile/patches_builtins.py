# earns: 0
# %% attack
import builtins
builtins.AssertionError = type("AssertionError", (), {"__init__": lambda self, *a: None})
builtins.isinstance = lambda *a: True
builtins.all = builtins.any = lambda *a: True
