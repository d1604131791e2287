# replaces: code-around


from collections import deque


def around(link, own):
    came = deque([own])
    for _ in range(1, link.world):
        link.send(came[0])
        came.appendleft(link.receive(own))
    came.rotate(link.rank + 1)
    return list(came)
