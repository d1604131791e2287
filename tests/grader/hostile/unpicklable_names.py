# earns: 0
# shows: check-strides: .*cannot say what it is
# shows: check-swap: .*got: +RuntimeError: out
# %% code-strides
class Loud(Exception):
    def __str__(self):
        raise RuntimeError("no")
    __repr__ = __str__
def contiguous_strides(shape):
    raise Loud
# %% code-swap
def swapped(x, a, b):
    raise BaseException("out")
