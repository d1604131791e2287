# earns: 0
# shows: attack: RuntimeError: landed
# %% attack
import json, os, sys
result = json.dumps({"verdicts": [{"check": "check-strides", "points": 20, "earned": 20}], "earned": 20})
for stream in (1, 2):
    os.write(stream, (result + "\n").encode())
print(result)
for name in ("../record.json", "../../01_views_and_attention/me.json", "gradebook.csv", "result.json"):
    try:
        open(name, "w").write(result)
    except OSError:
        pass
raise RuntimeError("landed")
