# earns: 2
# honest: strides
# shows: check-swap: .*got: +False
# %% given-setup
ran = True
def same_storage(a, b): return True
def torch_calls(function): return ["as_strided"]
# %% code-swap
def swapped(x, a, b):
    assert ran
    return x.transpose(a, b).contiguous()
