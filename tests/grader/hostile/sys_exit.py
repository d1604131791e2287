# earns: 2
# honest: strides
# shows: attack: SystemExit: 0
# shows: check-swap: .*got: +RuntimeError: 0
# %% attack
import sys
sys.exit(0)
# %% code-swap
def swapped(x, a, b):
    sys.exit(0)
