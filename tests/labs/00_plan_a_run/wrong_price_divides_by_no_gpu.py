# replaces: code-price
# caught by: check-price
# says: expected: ValueError to be raised
# says: got:      ZeroDivisionError
# says: not a division by 0


def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu={mfu}")
    seconds = flops / (gpus * peak * mfu)
    return seconds / 86_400, seconds / 3_600 * gpus * dollars_per_hour
