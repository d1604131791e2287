# earns: 0
# shows: check-strides: .*got: +\(a Anything
# shows: check-swap: .*got: +a Anything
# %% code-strides
class Anything:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def contiguous_strides(shape):
    return tuple(Anything() for _ in shape)
# %% code-swap
def swapped(x, a, b):
    return Anything()
