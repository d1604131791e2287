# replaces: code-law


from fractions import Fraction


def fit_law(terms, measured):
    rows = [[Fraction(each) for each in (*row, nbytes)] for row, nbytes in zip(terms, measured)]
    unknowns, done = len(terms[0]), 0
    for column in range(unknowns):
        pivot = next((r for r in range(done, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [each / rows[done][column] for each in rows[done]]
        for r in range(len(rows)):
            if r != done:
                rows[r] = [a - rows[r][column] * b for a, b in zip(rows[r], rows[done])]
        done += 1
    if done < unknowns:
        raise ValueError(f"{done} of {unknowns} terms are determined")
    law = [row[-1] for row in rows[:unknowns]]
    if any(row[-1] for row in rows[unknowns:]) or any(each.denominator > 1 for each in law):
        raise ValueError("no law of whole numbers")
    return [int(each) for each in law]
