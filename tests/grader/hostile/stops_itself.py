# earns: 2
# honest: strides
# shows: check-swap: .*got: +None|check-swap: .*took too long
# %% code-swap
def swapped(x, a, b):
    import os, signal
    os.kill(os.getpid(), signal.SIGSTOP)
