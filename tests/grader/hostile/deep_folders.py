# earns: 2
# honest: strides
# shows: attack: RuntimeError: landed
# shows: check-swap: .*it ended
# %% attack
import os
for number in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").write("x")
os.chmod(".", 0)
raise RuntimeError("landed")
# %% code-swap
def swapped(x, a, b):
    import os
    os.chdir(os.environ["HOME"])
    os.mkdir("wide")
    for number in range(500):
        os.mkdir(f"wide/{number}", 0o000)
    os.chmod("wide", 0)
    os._exit(0)
