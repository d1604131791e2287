# replaces: code-stopwatch
# caught by: check-stopwatch
# says: the work of others was counted too


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    for program in programs.values():
        program()
    seconds = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            start = clock()
            program()
            wait()
            seconds[name].append(clock() - start)
    return {name: median(times) for name, times in seconds.items()}
