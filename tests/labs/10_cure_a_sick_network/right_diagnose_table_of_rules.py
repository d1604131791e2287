# replaces: code-diagnose


def diagnose(model, x, y):
    kinds = triage(model, lambda m: F.cross_entropy(m(x), y))
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    layers = [s | {"kind": kinds[s["name"] + ".weight"]} for s in vital_signs(model, x) if s["name"] in linear]
    last_cut = next((s["name"] for s in reversed(layers) if s["kind"] == "none"), None)
    for s in layers:
        s["gain"] = s["rms_out"] / s["rms_in"] if s["sound_in"] and s["rms_in"] else math.nan
    rules = {
        "broken": lambda s: s["sound_in"] and not s["sound_out"],
        "dead": lambda s: s["gain"] > 0 and s["largest"] <= 0,
        "exploding": lambda s: s["gain"] > 100,
        "fading": lambda s: s["gain"] < 0.01,
        "frozen": lambda s: s["kind"] == "frozen",
        "cut": lambda s: s["name"] == last_cut,
    }
    seen = [(s["name"], [disease for disease, shows in rules.items() if shows(s)]) for s in layers]
    return [(name, diseases[0]) for name, diseases in seen if diseases]
