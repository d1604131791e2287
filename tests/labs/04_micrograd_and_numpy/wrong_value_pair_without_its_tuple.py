# replaces: code-value
# caught by: check-value
# says: result = a + 3
# says: cannot unpack
# says: a tuple of one pair is (pair,)


class Value:
    """A number that knows its parents: pairs (Value, slope), slope being the derivative of self with respect to it."""

    def __init__(self, data: float, parents: tuple = ()):
        self.data, self.parents, self.grad = data, parents, 0.0

    def __repr__(self):
        return f"Value({self.data})"

    def __add__(self, other):
        """self + other, a Value or a plain number."""
        if isinstance(other, Value):
            return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))
        return Value(self.data + other, ((self, 1.0)))

    def __mul__(self, other):
        """self * other, a Value or a plain number."""
        if isinstance(other, Value):
            return Value(self.data * other.data, ((self, other.data), (other, self.data)))
        return Value(self.data * other, ((self, other),))

    def __pow__(self, n: float):
        """self ** n for a plain number n other than 0."""
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def relu(self):
        """The larger of self and 0; slope 1 above 0, and 0 elsewhere, at 0 too."""
        return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))

    def exp(self):
        """e to the power of self."""
        result = math.exp(self.data)
        return Value(result, ((self, result),))

    def log(self):
        """The natural logarithm of self, which is above 0."""
        return Value(math.log(self.data), ((self, 1 / self.data),))

    # The rest is made of these.
    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return self**-1 * other
