# replaces: code-around
# caught by: check-around
# says: send first, then receive
# says: waits for a message that never comes


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world - 1):
        place = (link.rank - step) % link.world
        came = link.receive(like=own)
        link.send(everyones[place])
        everyones[place - 1] = came
    return everyones
