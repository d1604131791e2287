"""How fast the student's program is on each stair of the capstone, on this machine: python tests/climb_staircase.py

It runs the capstone's cells down to its staircase, and keeps the letters a second in tests/measured/staircase.json with
the machine, the versions and the day. The lecture draws them beside those of the machine that reads it. A machine that is
there already is measured anew. It takes two minutes.
"""

import json
import platform
from datetime import date
from pathlib import Path

import torch

from utils.atomic_write import write_text
from utils.course.notebooks.notebook import read

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "tests" / "measured" / "staircase.json"
LAST = "measure-all"  # the cell that measures every stair


def staircase() -> dict:
    """The names of the lecture after its staircase has been measured: `here` and `device` among them."""
    names = {"__name__": "__main__", "display": print}
    for cell in read(ROOT / "notebooks" / "capstone.ipynb").code:
        if not (cell.is_colab or cell.id.startswith("proof-")):
            exec(compile(cell.source, cell.id, "exec"), names)
        if cell.id == LAST:
            return names
    raise ValueError(f"the capstone has no cell {LAST}: give its name in this file")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    names = staircase()
    on_gpu = names["device"].type == "cuda"
    chip = torch.cuda.get_device_name() if on_gpu else processor()
    machine = {"cpu": chip, "threads": torch.get_num_threads(), "torch": torch.__version__}
    machine |= {"python": platform.python_version(), "date": str(date.today())}
    title = chip if on_gpu else f"one core of {chip}"
    run = {"machine": title, "model": "the program's", "stairs": {k: round(v) for k, v in names["here"].items()}}
    kept = json.loads(STORE.read_text()) if STORE.exists() else {"machines": [], "runs": []}
    others = [place for place, each in enumerate(kept["runs"]) if each["machine"] != title]
    kept = {key: [kept[key][place] for place in others] for key in ("machines", "runs")}
    kept = {"machines": [machine, *kept["machines"]], "runs": [run, *kept["runs"]]}
    write_text(STORE, json.dumps(kept, indent=1) + "\n")
    print(f"{title}: {run['stairs']}")


if __name__ == "__main__":
    main()
