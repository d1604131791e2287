# earns: 0
# shows: check-strides: .*got: +a Payload
# shows: check-swap: .*got: +\[a Payload
# %% attack
class Payload:
    def __reduce__(self):
        import os
        return os.system, ("touch " + SUBMISSIONS + "/pwned",)
# %% code-strides
def contiguous_strides(shape):
    return Payload()
# %% code-swap
def swapped(x, a, b):
    return [Payload()]
