# earns: 0
# shows: attack: this cell was left out: .*it ended
# %% attack
import builtins
builtins.AssertionError = type("AssertionError", (), {"__init__": lambda self, *a: None})
builtins.isinstance = lambda *a: True
builtins.all = builtins.any = lambda *a: True
