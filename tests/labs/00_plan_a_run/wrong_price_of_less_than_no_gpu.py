# replaces: code-price
# caught by: check-price
# says: with gpus = -2
# says: expected: ValueError to be raised


def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if not 0 < mfu <= 1 or gpus == 0:
        raise ValueError(f"mfu={mfu}, gpus={gpus}")
    seconds = flops / (gpus * peak * mfu)
    return seconds / 86_400, seconds / 3_600 * gpus * dollars_per_hour
