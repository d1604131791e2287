# replaces: code-price
# caught by: check-price
# says: with mfu = 1.2
# says: expected: ValueError to be raised
# says: nobody plans with 120 %


def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if mfu <= 0 or gpus < 1:
        raise ValueError(f"mfu={mfu}, gpus={gpus}")
    seconds = flops / (gpus * peak * mfu)
    return seconds / 86_400, seconds / 3_600 * gpus * dollars_per_hour
