# replaces: code-around
# caught by: check-around
# says: messages left unread


def around(link, own: Tensor) -> list[Tensor]:
    everyones = [own] * link.world
    for step in range(link.world - 1):
        place = (link.rank - step) % link.world
        link.send(everyones[place])
        everyones[place - 1] = link.receive(like=own)
    if link.world > 1:
        link.send(own)
    return everyones
