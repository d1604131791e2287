# honest: strides
# earns: 2
# shows: attack: RuntimeError: landed
# shows: check-swap: .*got: +float32 tensor
# %% attack
shell = get_ipython()
shell.input_transformers_post.clear()
shell.ast_transformers.clear()
shell.input_transformers_post.append(lambda lines: [line.replace("transpose(a, b)", "transpose(a, b).mul(2)") for line in lines])
raise RuntimeError("landed")
# %% code-swap
def swapped(x, a, b):
    return x.transpose(a, b).contiguous()
