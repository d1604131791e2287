# replaces: code-around
# caught by: check-around
# says: it was passed on


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world - 1):
        place = (link.rank - step) % link.world
        link.send(own)
        everyones[place - 1] = link.receive(like=own)
    return everyones
