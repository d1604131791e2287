# earns: 2
# honest: strides
# shows: attack: RuntimeError: landed
# %% attack
line = "x" * (1 << 20)
for _ in range(1000):
    print(line)
raise RuntimeError("landed")
