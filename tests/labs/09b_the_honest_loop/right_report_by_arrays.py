# replaces: code-report


def report(log, flops, peak, price):
    if len(log) <= 1:
        raise ValueError(f"a log of {len(log)} is too short")
    table = {key: np.array([record[key] for record in log], dtype=float) for key in ("targets", "seconds", "waited", "bytes")}
    later = {key: column[1:].sum() for key, column in table.items()}
    best = None
    for record in log:
        if "val" in record and record["val"] == record["val"] and (best is None or record["val"] < best["val"]):
            best = record
    return {
        "best_val": best and best["val"],
        "best_step": best and best["step"],
        "peak_bytes": table["bytes"].max(),
        "mfu": later["targets"] * flops / (peak * later["seconds"]),
        "utilisation": (later["seconds"] - later["waited"]) / later["seconds"],
        "throughput": later["targets"] / later["seconds"],
        "dollars": price * table["seconds"].sum() / 60 / 60,
        "seconds": table["seconds"].sum(),
        "targets": int(table["targets"].sum()),
        "steps": len(log),
    }
