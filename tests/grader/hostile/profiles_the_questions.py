# honest: strides
# earns: 2
# shows: attack: RuntimeError: landed
# shows: check-swap: .*got: +\['contiguous', 'transpose'\]
# %% attack
import sys
sys.setprofile(lambda frame, event, arg: frame.f_locals.update(b=frame.f_locals.get("a")) if frame.f_code.co_name == "same_storage" else None)
raise RuntimeError("landed")
# %% code-swap
def swapped(x, a, b):
    return x.transpose(a, b).contiguous()
