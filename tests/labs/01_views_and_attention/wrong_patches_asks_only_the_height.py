# replaces: code-patches
# caught by: check-patches
# says: with p = 4
# says: expected: ValueError to be raised
# says: H % p or W % p


def patches(images, p):
    B, C, H, W = images.shape
    b, c, h, w = images.stride()
    if H % p:
        raise ValueError(f"p={p}")
    return images.as_strided((B, H // p, W // p, C, p, p), (b, p * h, p * w, c, h, w))
