# replaces: code-writeup


def write_up(flops, nbytes, seconds, peak, bandwidth):
    by_time = sorted(seconds, key=seconds.get)
    by_bytes = sorted(nbytes, key=nbytes.get)
    gap, who = max((seconds[name] / max(flops / peak, nbytes[name] / bandwidth), name) for name in seconds)
    verdict = bound(flops, nbytes[by_bytes[-1]], peak, bandwidth)
    return (
        f"1. Nothing beats {by_time[0]!r}: {by_time[-1]!r} is {seconds[by_time[-1]] / seconds[by_time[0]]:.3e} times slower.",
        f"2. {verdict['limit'].capitalize()} limits {by_bytes[-1]}, at {verdict['intensity']:,.6f} FLOPs/byte (ridge {verdict['ridge']:.2f}).",
        f"3. {who}: {gap:,.2f}× what its roof allows, and not a millisecond less.",
    )
