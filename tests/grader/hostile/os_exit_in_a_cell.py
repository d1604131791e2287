# earns: 2
# honest: strides
# shows: attack: this cell was left out: .*it ended
# %% attack
import os
os._exit(0)
