# replaces: code-patches
# caught by: check-patches
# says: expected shape (2, 2, 3, 3, 2, 2), got (2, 3, 2, 3, 2, 2)


def patches(images, p):
    B, C, H, W = images.shape
    b, c, h, w = images.stride()
    if H % p or W % p:
        raise ValueError(f"p={p}")
    return images.as_strided((B, W // p, H // p, C, p, p), (b, p * w, p * h, c, h, w))
