# replaces: code-patches
# caught by: check-patches
# says: values differ
# says: how far away that pixel is


def patches(images, p):
    B, C, H, W = images.shape
    b, c, h, w = images.stride()
    if H % p or W % p:
        raise ValueError(f"p={p}")
    return images.as_strided((B, H // p, W // p, C, p, p), (b, h, w, c, h, w))
