# replaces: code-law
# caught by: check-law
# says: put the rounded numbers back


def fit_law(terms, measured):
    unknowns = len(terms[0])
    rank = np.linalg.matrix_rank(np.array(terms, dtype=float))
    if rank < unknowns:
        raise ValueError(f"{rank} of {unknowns}")
    found = np.linalg.lstsq(np.array(terms[:unknowns], dtype=float), np.array(measured[:unknowns], dtype=float), rcond=None)[0]
    return [round(each) for each in found.tolist()]
