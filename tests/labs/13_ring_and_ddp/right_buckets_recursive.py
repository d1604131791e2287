# replaces: code-buckets


def buckets(sizes, capacity):
    if capacity < 1:
        raise ValueError(f"no room in a bucket of {capacity}")
    if not sizes:
        return []
    places, held = [], 0
    while sizes and held < capacity:
        held += sizes[-1]
        places.append(len(sizes) - 1)
        sizes = sizes[:-1]
    return [places, *buckets(sizes, capacity)]
