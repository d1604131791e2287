# earns: 0
# %% attack
for name in list(globals()):
    if not name.startswith("__"):
        del globals()[name]
__builtins__.clear() if isinstance(__builtins__, dict) else None
