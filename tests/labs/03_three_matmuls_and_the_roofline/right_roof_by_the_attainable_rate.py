# replaces: code-roof


def measured_roof(work):
    broken = [name for name, each in work.items() if not each[-1] > 0]
    if broken:
        raise ValueError("no time at all: " + ", ".join(broken))
    rates = np.array([[flops, nbytes] for flops, nbytes, _ in work.values()]) / np.array([[s] for *_, s in work.values()])
    return tuple(rates.max(axis=0))


def bound(flops, nbytes, peak, bandwidth):
    intensity = flops / nbytes
    attainable = min(peak, intensity * bandwidth)
    limit = "arithmetic" if attainable == peak else "memory"
    return dict(limit=limit, seconds=flops / attainable, ridge=peak / bandwidth, intensity=intensity)
