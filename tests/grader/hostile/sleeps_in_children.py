# earns: 0
# shows: check-strides: .*took too long
# %% code-strides
def contiguous_strides(shape):
    import os, time
    for _ in range(6):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
    time.sleep(600)
