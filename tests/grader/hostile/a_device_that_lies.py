# honest: strides
# earns: 2
# %% parameters
device = type("D", (), {"__str__": lambda self: "cpu"})()
seed = (print("mine"), 0)[1]

# %% code-swap
def swapped(x, a, b):
    return x.transpose(a, b).contiguous()
