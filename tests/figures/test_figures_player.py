"""A film in a notebook: its pictures in order, one shown, and no film that is too large or jumps."""

import pytest
from bs4 import BeautifulSoup

from utils.figures import player
from utils.figures.style import new_figure


def dots(places, size=(6.0, 2.0)):
    for place in places:
        figure, axes = new_figure(*size)
        axes.plot([place], [0], "o")
        axes.set(xlim=(0, 10), ylim=(-1, 1))
        yield f"at {place}", figure


def test_a_film_has_its_pictures_in_order_and_shows_the_last():
    film = player.film(dots([1, 5, 9]), "a <dot>")
    page = BeautifulSoup(film._repr_html_(), "html.parser")
    frames = page.select(".film > .film-frame")
    assert [frame.figcaption.text for frame in frames] == ["at 1", "at 5", "at 9"]
    assert [frame.get("style") for frame in frames] == ["display: none", "display: none", None]
    assert frames[0].img["alt"] == "a <dot>: at 1"
    assert page.script.text == player.SCRIPT.read_text(encoding="utf-8")
    assert len(set(film.frames)) == 3


def test_frames_of_two_sizes_are_no_film():
    with pytest.raises(ValueError, match="one size"):
        player.film([*dots([1]), *dots([2], size=(6.0, 3.0))], "a dot")
    with pytest.raises(ValueError, match="none"):
        player.film([], "nothing")


def test_a_film_too_large_for_a_page_is_refused(monkeypatch):
    monkeypatch.setattr(player, "LARGEST", 10_000)
    with pytest.raises(ValueError, match="more than 10,000"):
        player.film(dots(range(9)), "a dot")
