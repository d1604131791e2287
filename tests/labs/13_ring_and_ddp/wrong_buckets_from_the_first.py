# replaces: code-buckets
# caught by: check-buckets
# says: by hand


def buckets(sizes: list[int], capacity: int) -> list[list[int]]:
    if capacity < 1:
        raise ValueError(f"capacity={capacity}: give a bucket room for at least 1")
    full, places = [], []
    for place in range(len(sizes)):
        places.append(place)
        if sum(sizes[place] for place in places) >= capacity:
            full.append(places)
            places = []
    return full + [places] * bool(places)
