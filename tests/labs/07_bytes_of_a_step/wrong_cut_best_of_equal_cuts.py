# replaces: code-cut
# caught by: check-cut
# says: not the best: equal parts are not


def peak_of_cut(segments):
    if not segments or min(segments) < 1:
        raise ValueError(f"segments {segments}")
    last = len(segments)
    return max(j - 1 + length + (j < last) + 1 for j, length in enumerate(segments, 1))


def best_cut(layers):
    def equal(s):
        return [layers // s + (j < layers % s) for j in range(s)]

    return min((equal(s) for s in range(1, layers + 1)), key=peak_of_cut)
