# replaces: code-stopwatch


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    def once(program):
        wait()
        start = clock()
        program()
        wait()
        return clock() - start

    rows = [[once(program) for program in programs.values()] for _ in range(rounds + 1)]
    return {name: float(np.median(column)) for name, column in zip(programs, zip(*rows[1:]))}
