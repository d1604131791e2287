# earns: 2
# honest: strides
# %% attack
import sys
sys.exit(0)
# %% code-swap
def swapped(x, a, b):
    sys.exit(0)
