# replaces: code-law
# caught by: check-law
# says: put the rounded numbers back


def fit_law(terms, measured) -> list[int]:
    """The whole numbers, one for each term, with which sum(number · term) is what was measured, each time.

    ValueError if the measurements do not determine them ("rank of columns"), or if no whole numbers meet all of them.
    """
    found, _, rank, _ = np.linalg.lstsq(np.array(terms, dtype=float), np.array(measured, dtype=float), rcond=None)
    if rank < len(terms[0]):
        raise ValueError(f"only {rank} of {len(terms[0])} terms are determined: measure shapes that differ in more")
    law = [round(each) for each in found.tolist()]
    for row, nbytes in zip(terms, measured, strict=True):
        if abs(sum(factor * term for factor, term in zip(found.tolist(), row, strict=True)) - nbytes) > 1:
            raise ValueError(f"no law of whole numbers: {law} misses {nbytes} bytes at {row}; is a term missing?")
    return law
