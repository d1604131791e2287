# earns: 2
# honest: strides
# shows: check-swap: .*it ended
# shows: check-diagonal: .*got: +None|check-diagonal: .*it ended
# %% code-swap
def swapped(x, a, b):
    import os
    os._exit(0)
# %% code-diagonal
def diagonal(x, k=0):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
