"""Whether the words in a picture can be read: no word lies on another, and each stands out from what is behind it."""

import itertools

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

CONTRAST = 4.5  # of WCAG 2, level AA
TOUCH = 3  # pixels by which two words may overlap: their boxes are a little larger than their letters


def unreadable(figure: Figure) -> list[str]:
    """What is wrong with the words in the picture, a sentence each."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.set_layout_engine("none")  # what is hidden below must not move the rest
    ticks = _labels_of_ticks(figure)
    shown = {text: text.get_window_extent() for text in figure.findobj(Text) if _is_shown(text, figure, ticks)}
    return [*_overlaps(shown), *_faint(canvas, shown)]


def _is_shown(text: Text, figure: Figure, ticks: dict[Text, bool]) -> bool:
    """Whether it is drawn: matplotlib also keeps labels of ticks beyond the limits, and of axes that are switched off.

    ticks: every label of a tick, and whether it is one of those that are drawn.
    """
    if not (text.get_visible() and text.get_text().strip() and ticks.get(text, True)):
        return False
    axes = text.axes
    if axes is not None and not axes.axison and text in (*ticks, axes.xaxis.label, axes.yaxis.label):
        return False
    box = text.get_window_extent()
    return figure.bbox.overlaps(box)


def _labels_of_ticks(figure: Figure) -> dict[Text, bool]:
    found = {}
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            drawn = {id(tick) for tick in axis._update_ticks()}  # those within the limits
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                found |= dict.fromkeys((tick.label1, tick.label2), id(tick) in drawn)
    return found


def _overlaps(shown: dict[Text, Bbox]) -> list[str]:
    boxes = [(text, box) for text, box in shown.items() if text.get_rotation() % 90 == 0]
    found = []
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        if min(width, height) > TOUCH and one.get_text() != two.get_text():
            found.append(f"{one.get_text()!r} lies on {two.get_text()!r}, {width:.0f} by {height:.0f} pixels")
    return found


def _faint(canvas: FigureCanvasAgg, shown: dict[Text, Bbox]) -> list[str]:
    """The words whose colour is too near to the picture without words, at their place."""
    for text in shown:
        text.set_visible(False)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255  # from below, as the boxes count
    for text in shown:
        text.set_visible(True)
    found = []
    for text, box in shown.items():
        place = pixels[max(int(box.y0), 0) : int(box.y1) + 1, max(int(box.x0), 0) : int(box.x1) + 1]
        plate = text.get_bbox_patch()
        behind = to_rgb(plate.get_facecolor()) if plate else np.median(place.reshape(-1, 3), axis=0)
        if contrast(to_rgb(text.get_color()), behind) < CONTRAST:
            found.append(f"{text.get_text()!r}: contrast {contrast(to_rgb(text.get_color()), behind):.2f}")
    return found


def contrast(one, other) -> float:
    """Of two colours, red, green and blue from 0 to 1, by WCAG 2."""
    low, high = sorted(_luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour) -> float:
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))
