# honest: strides
# earns: 2
# shows: check-swap: .*got: +False
# %% parameters
device = type("D", (), {"__str__": lambda self: "cpu"})()
seed = (print("mine"), 0)[1]
ran = True

# %% code-swap
def swapped(x, a, b):
    assert ran
    return x.transpose(a, b).contiguous()
