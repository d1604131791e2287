# replaces: code-stopwatch
# caught by: check-stopwatch
# says: of an even number of rounds the mean of the two in the middle


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    for program in programs.values():
        program()
    seconds = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            wait()
            start = clock()
            program()
            wait()
            seconds[name].append(clock() - start)
    return {name: sorted(times)[len(times) // 2] for name, times in seconds.items()}
