# earns: 0
# shows: attack: RuntimeError: landed
# shows: check-strides: .*got: +\(\)
# %% attack
def expect(*a, **k): pass
expect_equal = expect_close = expect_raises = expect
class ask:
    def __new__(cls, *a, **k): return None
raise RuntimeError("landed")
# %% code-strides
def contiguous_strides(shape): return ()
