# earns: 2
# honest: strides
# shows: attack: OSError: \[Errno 28\]
# %% attack
import time
for number in range(100_000):
    try:
        with open(f"full-{number}", "wb") as file:
            file.write(bytes(1 << 22))
    except OSError as error:
        full = error
        break
    time.sleep(0.001)
raise full
