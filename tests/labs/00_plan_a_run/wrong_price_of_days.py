# replaces: code-price
# caught by: check-price
# says: expected 96.0, got 4.0


def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if not 0 < mfu <= 1 or gpus < 1:
        raise ValueError(f"mfu={mfu}, gpus={gpus}")
    days = flops / (gpus * peak * mfu) / 86_400
    return days, days * gpus * dollars_per_hour
