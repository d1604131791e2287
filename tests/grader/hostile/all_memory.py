# earns: 2
# honest: strides
# shows: attack: RuntimeError: landed
# shows: check-swap: .*allocate memory
# %% attack
hoard = []
try:
    while True:
        hoard.append(bytearray(1 << 28))
except MemoryError:
    hoard.clear()
raise RuntimeError("landed")
# %% code-swap
def swapped(x, a, b):
    return torch.zeros(100 << 30, dtype=torch.uint8)
