"""What is written in a picture, for the tests of utils/figures."""

import matplotlib

matplotlib.use("Agg")  # no window, on any machine


def texts(figure) -> list[str]:
    """Every label inside the panels, in order."""
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def legend(figure) -> list[str]:
    """Every entry of the legends, the figure's own first."""
    legends = figure.legends + [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    return [text.get_text() for each in legends for text in each.get_texts()]


def words(figure) -> str:
    """The labels inside the panels in one line."""
    return " ".join(texts(figure))
