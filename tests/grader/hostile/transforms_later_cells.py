# honest: strides
# earns: 2
# %% attack
shell = get_ipython()
shell.input_transformers_post.append(lambda lines: [line.replace("as_strided", "clone") for line in lines])
shell.input_transformers_post.clear()
shell.ast_transformers.clear()

# %% code-swap
def swapped(x, a, b):
    return x.transpose(a, b).contiguous()
