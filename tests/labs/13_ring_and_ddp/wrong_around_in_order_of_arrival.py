# replaces: code-around
# caught by: check-around
# says: by hand


def around(link, own: Tensor) -> list[Tensor]:
    everyones, last = [own], own
    for step in range(link.world - 1):
        link.send(last)
        last = link.receive(like=own)
        everyones.append(last)
    return everyones
