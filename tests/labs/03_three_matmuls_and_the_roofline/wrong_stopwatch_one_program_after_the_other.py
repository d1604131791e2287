# replaces: code-stopwatch
# caught by: check-stopwatch
# says: the loop over the rounds is the outer one


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    result = {}
    for program in programs.values():
        program()
    for name, program in programs.items():
        times = []
        for _ in range(rounds):
            wait()
            start = clock()
            program()
            wait()
            times.append(clock() - start)
        result[name] = median(times)
    return result
