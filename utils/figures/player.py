"""Films that a reader moves: some pictures of one size, a slider, and a button that plays them."""

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

SCRIPT = Path(__file__).with_name("player.js")  # gives films their controls, in notebooks and on the site
COLOURS = 64  # of a frame: PNG files of a third of the size, and nobody sees the difference
DPI = 110
LARGEST = 1_300_000  # bytes of a film: a page holds some more pictures


class Film:
    """Pictures as PNG files, with a caption each. In a notebook it shows itself; without JavaScript, its last picture."""

    def __init__(self, frames: list[bytes], captions: list[str], description: str):
        self.frames, self.captions, self.description = frames, captions, description

    def _repr_html_(self) -> str:
        shown = []
        for n, (frame, caption) in enumerate(zip(self.frames, self.captions, strict=True), start=1):
            hidden = "" if n == len(self.frames) else ' style="display: none"'
            picture = f"data:image/png;base64,{base64.b64encode(frame).decode()}"
            words = html.escape(f"{self.description}: {caption}")
            shown.append(
                f'<figure class="film-frame"{hidden}><img alt="{words}" src="{picture}">'
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            )
        return f'<div class="film">{"".join(shown)}</div><script>{SCRIPT.read_text(encoding="utf-8")}</script>'


def film(figures: Iterable[tuple[str, Figure]], description: str) -> Film:
    """The film of some (caption, figure), which are drawn one by one and closed.

    Raises ValueError for no figure at all, for figures of different sizes, and for a film of more than LARGEST bytes.
    """
    captions, frames, sizes = [], [], set()
    for caption, figure in figures:
        captions.append(caption)
        figure.set(dpi=DPI, facecolor="white")
        canvas, stored = FigureCanvasAgg(figure), io.BytesIO()
        canvas.draw()  # once; savefig draws twice
        plt.close(figure)
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        picture = picture.quantize(COLOURS, dither=Image.Dither.NONE)
        picture.save(stored, "PNG")
        frames.append(stored.getvalue())
        sizes.add(picture.size)
    if len(sizes) != 1:
        raise ValueError(f"a film has pictures of one size, not {sorted(sizes) or 'none'}: draw all frames alike")
    if (total := sum(map(len, frames))) > LARGEST:
        raise ValueError(f"the film has {total:,} bytes, more than {LARGEST:,}: show fewer frames")
    return Film(frames, captions, description)
