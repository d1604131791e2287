# earns: 2
# honest: strides
# %% attack
hoard = []
try:
    while True:
        hoard.append(bytearray(1 << 28))
except MemoryError:
    hoard.clear()
# %% code-swap
def swapped(x, a, b):
    return torch.zeros(100 << 30, dtype=torch.uint8)
