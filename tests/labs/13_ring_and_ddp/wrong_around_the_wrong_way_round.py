# replaces: code-around
# caught by: check-around
# says: by hand


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world - 1):
        place = (link.rank + step) % link.world
        link.send(everyones[place])
        everyones[(place + 1) % link.world] = link.receive(like=own)
    return everyones
