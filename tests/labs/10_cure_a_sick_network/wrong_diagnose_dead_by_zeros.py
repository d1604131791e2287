# replaces: code-diagnose
# caught by: check-diagnose
# says: largest ≤ 0 < rms_out


def diagnose(model, x, y):
    gradients = triage(model, lambda m: F.cross_entropy(m(x), y))
    signs = [sign for sign in vital_signs(model, x) if isinstance(model.get_submodule(sign["name"]), nn.Linear)]
    without = [sign["name"] for sign in signs if gradients[sign["name"] + ".weight"] == "none"]
    found = []
    for sign in signs:
        name, rms_in, rms_out = sign["name"], sign["rms_in"], sign["rms_out"]
        fed = sign["sound_in"]
        if fed and not sign["sound_out"]:
            found.append((name, "broken"))
        elif rms_out == 0:
            found.append((name, "dead"))
        elif fed and rms_out > 100 * rms_in:
            found.append((name, "exploding"))
        elif fed and rms_out < rms_in / 100:
            found.append((name, "fading"))
        elif gradients[name + ".weight"] == "frozen":
            found.append((name, "frozen"))
        elif name in without[-1:]:
            found.append((name, "cut"))
    return found
