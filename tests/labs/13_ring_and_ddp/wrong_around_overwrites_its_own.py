# replaces: code-around
# caught by: check-around
# says: own is only read


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world - 1):
        place = (link.rank - step) % link.world
        link.send(everyones[place])
        everyones[place - 1] = link.receive(like=own)
    mine = own.clone()
    if link.world > 1:
        own.copy_(everyones[link.rank - 1])
    everyones[link.rank] = mine
    return everyones
