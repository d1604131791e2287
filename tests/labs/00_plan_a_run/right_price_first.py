# replaces: code-price


def time_and_price(flops, gpus, peak, mfu, dollars_per_hour):
    if gpus < 1:
        raise ValueError(f"{gpus} GPUs")
    if mfu > 1 or mfu <= 0:
        raise ValueError(f"an MFU of {mfu}")
    gpu_hours = flops / peak / mfu / 3600
    return gpu_hours / gpus / 24, gpu_hours * dollars_per_hour
