# earns: 2
# honest: strides
# shows: attack: \w+Error: \[Errno|attack: .*it ended
# shows: check-swap: .*got: +\(\)
# %% attack
import os, signal
os.killpg(os.getpgrp(), signal.SIGKILL)
# %% code-swap
def swapped(x, a, b):
    import os, signal
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (-1, 0, os.getppid(), 1):
            try:
                os.kill(pid, number)
            except OSError:
                pass
    return ()
