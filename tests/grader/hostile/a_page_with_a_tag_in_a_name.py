# earns: 0
# shows: check-strides: .*<img onerror=alert
# %% code-strides
def contiguous_strides(shape):
    raise type("</code><script>alert(4)</script>", (ValueError,), {})("<img onerror=alert(4)>")
