# earns: 2
# honest: strides
# shows: attack: RuntimeError: \ud800
# shows: check-swap: .*ValueError: \ud800
# shows: check-diagonal: .*got: +\{'\\udfff'
# %% attack
try:
    print("\ud800")
except UnicodeError:
    pass
raise RuntimeError("\ud800")
# %% code-swap
def swapped(x, a, b):
    raise ValueError("\ud800 \x00 \x1b[2J")
# %% code-diagonal
def diagonal(x, k=0):
    return {"\udfff": "\ud800"}
