# earns: 0
# shows: check-strides: .*mincore is refused
# %% code-strides
def contiguous_strides(shape):
    import ctypes, mmap
    with open(torch.__file__, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
    page = (ctypes.c_ubyte * 64)()
    address = ctypes.addressof(ctypes.c_char.from_buffer_copy(mapped[:1]))
    if ctypes.CDLL(None).mincore(ctypes.c_void_p(address & ~4095), 4096, page) < 0:
        raise OSError("mincore is refused")
    return torch.empty(shape).stride()
