# replaces: code-stopwatch


def stopwatch(programs, rounds, clock, wait):
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}")
    names, seconds = list(programs), {name: [] for name in programs}
    for name in names * 3:
        programs[name]()
    wait()
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            start = clock()
            programs[name]()
            wait()
            seconds[name].append(clock() - start)
    return {name: sum(sorted(times)[(rounds - 1) // 2 : rounds // 2 + 1]) / (2 - rounds % 2) for name, times in seconds.items()}
