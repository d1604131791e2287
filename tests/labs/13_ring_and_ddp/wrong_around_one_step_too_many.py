# replaces: code-around
# caught by: check-around
# says: K − 1 messages


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world):
        place = (link.rank - step) % link.world
        link.send(everyones[place])
        everyones[place - 1] = link.receive(like=own)
    return everyones
