# earns: 2
# honest: strides
# shows: attack: this cell was left out: .*it said something else
# %% attack
import os, stat, struct
from utils.lab import plain_values
JUNK = (5, None, "x", (), [], ("E",), (("E",),), ((), "t"), (("E",), 5), {"a": 1}, ("E", "t", "u"), (("E",) * 10_000, "t"))
for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            for junk in JUNK:
                for name in ("code-strides", "attack", ["a"], 7, None):
                    message = plain_values.dump({"ended": name, "raised": junk})
                    os.write(fd, struct.pack(">Q", len(message)) + message)
    except OSError:
        pass
