# earns: 0
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
