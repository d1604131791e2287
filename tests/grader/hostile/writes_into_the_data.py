# earns: 0
# shows: check-strides: .*nothing was written
# %% code-strides
def contiguous_strides(shape):
    import os
    from pathlib import Path
    written = 0
    for folder in filter(None, [os.environ.get("COURSE_DATA"), "/etc", "/usr/lib"]):
        try:
            written += Path(folder, "pwned").write_text("x")
        except OSError:
            pass
    assert written, "nothing was written"
    return torch.empty(shape).stride()
