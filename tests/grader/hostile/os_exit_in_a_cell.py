# earns: 2
# honest: strides
# %% attack
import os
os._exit(0)
