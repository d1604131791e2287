# earns: 2
# honest: strides
# shows: attack: this cell was left out: .*took too long
# %% attack
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
