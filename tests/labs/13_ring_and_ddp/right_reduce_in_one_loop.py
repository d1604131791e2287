# replaces: code-reduce


def all_reduce(link, vector):
    K = link.world
    chunks = list(torch.tensor_split(vector, K))
    for step in range(2 * K - 2):
        link.send(chunks[link.rank - step % K])
        mine = chunks[(link.rank - step - 1) % K]
        mine *= step < K - 1
        mine += link.receive(torch.empty_like(mine))
