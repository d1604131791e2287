# replaces: code-stopwatch
# caught by: check-stopwatch
# says: raise ValueError with its value


def stopwatch(programs, rounds, clock, wait):
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
    return {name: sum(sorted(times)[i] for i in ((rounds - 1) // 2, rounds // 2)) / 2 for name, times in seconds.items()}
