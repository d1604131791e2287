# earns: 0
# shows: attack: RuntimeError: landed
# %% attack
import sys, types
fake = types.ModuleType("utils.lab")
fake.__getattr__ = lambda name: lambda *a, **k: True
for name in ("utils.lab", "utils.lab.plain_values", "utils.grader.judge", "utils.course.notebooks.lab"):
    sys.modules[name] = fake
class Finder:
    def find_spec(self, *a, **k): raise ImportError("mine")
sys.meta_path.insert(0, Finder())
open("sitecustomize.py", "w").write("import os; os._exit(0)")
open("torch.py", "w").write("raise SystemExit")
raise RuntimeError("landed")
