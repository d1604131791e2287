# earns: 0
# shows: attack: this cell was left out: .*it ended
# %% attack
for name in list(globals()):
    if not name.startswith("__"):
        del globals()[name]
getattr(__builtins__, "__dict__", __builtins__).clear()
