# earns: 0
# shows: check-strides: .*took too long
# %% code-strides
def contiguous_strides(shape):
    import hashlib, threading
    def spin():
        while True:
            hashlib.sha256(bytes(1 << 24)).digest()
    for _ in range(8):
        threading.Thread(target=spin, daemon=True).start()
    threading.Event().wait()
