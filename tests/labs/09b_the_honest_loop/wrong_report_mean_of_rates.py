# replaces: code-report
# caught by: check-report
# says: sums divided by sums


def report(log: list[dict], flops: float, peak: float, price: float) -> dict:
    """What a run did and cost, from its log: see the table. flops: per target; peak: per second; price: per hour.

    Raises ValueError for fewer than two records.
    """
    if len(log) < 2:
        raise ValueError(f"{len(log)} records: the throughput is that of all but the first, so make at least 2 steps")

    def total(key: str, first: int) -> float:
        return sum(record[key] for record in log[first:])

    throughput = sum(r["targets"] / r["seconds"] for r in log[1:]) / (len(log) - 1)
    scores = [(record["val"], record["step"]) for record in log if not math.isnan(record.get("val", math.nan))]
    best_val, best_step = min(scores, default=(None, None))
    return {
        "steps": len(log),
        "targets": total("targets", 0),
        "seconds": total("seconds", 0),
        "dollars": total("seconds", 0) / 3600 * price,
        "throughput": throughput,
        "utilisation": 1 - total("waited", 1) / total("seconds", 1),
        "mfu": throughput * flops / peak,
        "peak_bytes": max(record["bytes"] for record in log),
        "best_val": best_val,
        "best_step": best_step,
    }
