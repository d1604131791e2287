# earns: 0
# shows: attack: this cell was left out: .*it said something else
# %% attack
import os, stat, struct, threading, time
from utils.lab import plain_values
def flood():
    message = plain_values.dump({"number": 1, "value": (3, 1)})
    while True:
        for fd in range(64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    os.write(fd, struct.pack(">Q", len(message)) + message)
            except OSError:
                pass
threading.Thread(target=flood, daemon=True).start()
