# replaces: code-stopwatch
# caught by: check-stopwatch
# says: call every program once before you measure any


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    next(iter(programs.values()))()
    seconds = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            wait()
            start = clock()
            program()
            wait()
            seconds[name].append(clock() - start)
    return {name: median(times) for name, times in seconds.items()}
