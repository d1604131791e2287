# earns: 2
# honest: strides
# shows: check-swap: .*took too long
# %% code-swap
def swapped(x, a, b):
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
