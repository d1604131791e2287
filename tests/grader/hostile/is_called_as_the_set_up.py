# earns: 2
# honest: strides
# %% given-setup
def same_storage(a, b): return True
def torch_calls(function): return ["as_strided"]
# %% code-swap
def swapped(x, a, b):
    return x.transpose(a, b).contiguous()
