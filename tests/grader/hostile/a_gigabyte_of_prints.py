# earns: 2
# honest: strides
# %% attack
line = "x" * (1 << 20)
for _ in range(1000):
    print(line)
