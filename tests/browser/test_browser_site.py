"""The site, as `make site` left it in build/site/: wide and narrow, light and dark, from a server and from the disk."""

import pytest
from browsing import NARROW, ROOT, WIDE, faint, leaves, served, too_wide

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE = ROOT / "build" / "site"
PAGES = [
    *("index", "folklore", "cheat_sheet", "calculators", "ledger"),
    *("07_memory_to_the_byte", "09_the_training_loop_by_hand", "lab_04_micrograd_and_numpy"),
]
BROKEN = {  # what is planted -> (a page with it, what is said)
    "an error in a script": ("<script>undefined_name.x</script>", "exception: undefined_name is not defined"),
    "a complaint": ("<script>console.error('look here')</script>", "console: look here"),
    "a picture that is not there": ("<img src='gone.png'>", "console: Failed to load resource"),
    "a picture from outside": ("<img src='https://example.org/pixel.png'>", "asked for https://example.org/pixel.png"),
    "a style from outside": (
        "<link rel='stylesheet' href='//example.org/x.css'>",
        "asked for http://example.org/x.css",
    ),
    "a socket to outside": (
        "<script>socket = new WebSocket('wss://example.org')</script>",
        "asked for wss://example.org/",
    ),
}


@pytest.fixture(scope="module", params=["server", "disk"])
def address(request):
    if not (SITE / "index.html").exists():
        pytest.fail(f"no site in {SITE}: `make test-browser` makes it first")
    if request.param == "disk":
        yield SITE.as_uri()
    else:
        with served(SITE) as url:
            yield url


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_stays_at_home_fits_and_can_be_read(address, page, name):
    page.goto(f"{address}/{name}.html")
    found = {"problems": page.watch.problems}
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        for size in (WIDE, NARROW):
            page.set_viewport_size(size)
            found |= {f"too wide at {size['width']}": too_wide(page), f"faint, {dark=} at {size['width']}": faint(page)}
    assert {what: where for what, where in found.items() if where} == {}


def test_dark_is_dark_and_can_be_chosen(address, new_page):
    colours = []
    for dark in (False, True):
        page = new_page(dark=dark)
        page.goto(f"{address}/index.html")
        colours.append(brightness(page))
    assert colours[0] > 200 and colours[1] < 60
    for _ in range(2):  # the button goes from the system's choice to dark, and then to light
        page.locator("#theme").click()
    assert brightness(page) == colours[0] and page.watch.problems == []


def brightness(page) -> float:
    red, green, blue = page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)")
    return (int(red) + int(green) + int(blue)) / 3


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_search_finds_a_claim_and_leads_to_it(address, new_page, size):
    page = new_page(size=size)
    page.goto(f"{address}/index.html")
    page.locator("#find").click()
    page.keyboard.type("7.3")
    first = page.locator("#found a").first
    first.wait_for()
    assert "7.3" in first.inner_text() and page.watch.problems == [] and too_wide(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/07_memory_to_the_byte.html#*")
    claim = page.locator(":target")
    claim.wait_for()
    assert "7.3" in claim.inner_text()
    top = claim.bounding_box()["y"]
    assert 0 <= top < size["height"] / 2 and page.watch.problems == []


def test_search_finds_words_of_a_claim_and_says_when_there_is_none(address, page):
    page.goto(f"{address}/ledger.html")
    row = page.locator("tr:has(td):has(a)").nth(4)
    number = row.locator("a").first.inner_text().split()[-1]
    words = " ".join(row.locator("td").nth(1).inner_text().split()[:6])
    page.locator("#find").fill(words)  # all at once, before the index has come
    page.locator("#found a").first.wait_for()
    assert number in page.locator("#found a").first.inner_text()
    page.locator("#find").fill("zyzzyva")
    page.get_by_text("Nothing found").wait_for()
    assert page.watch.problems == []


@pytest.mark.parametrize("what", BROKEN)
def test_what_goes_wrong_on_a_page_is_noticed(tmp_path, page, what):
    planted, said = BROKEN[what]
    (tmp_path / "page.html").write_text(f"<!doctype html><link rel='icon' href='data:,'><p>Text</p>{planted}")
    with served(tmp_path) as url:
        page.goto(f"{url}/page.html")
        page.wait_for_function("() => typeof socket === 'undefined' || socket.readyState === WebSocket.CLOSED")
        assert any(said in problem for problem in page.watch.problems), page.watch.problems


def test_a_page_without_anything_wrong_is_told_nothing(tmp_path, page):
    (tmp_path / "page.html").write_text(
        "<!doctype html><link rel='icon' href='data:,'><p>Text <b style='color: #767676'>grey enough</b></p>"
        "<div style='overflow-x: auto'><div style='width: 3000px'>wide, in a box that scrolls</div></div>"
    )
    with served(tmp_path) as url:
        page.goto(f"{url}/page.html")
        assert page.watch.problems + too_wide(page) + faint(page) == []


@pytest.mark.parametrize(("style", "check", "said"), [
    ("width: 2000px", too_wide, "the page is 20"), ("color: #999", faint, "2.85: p."),
    ("background: #000; color: #444", faint, "2.16: p."), ("color: rgb(0 0 0 / 0.3)", faint, "2.12: p."),
])  # fmt: skip
def test_what_does_not_fit_or_can_hardly_be_read_is_noticed(page, style, check, said):
    page.set_content(f"<!doctype html><p style='{style}'>Text</p>")
    assert check(page)[0].startswith(said), check(page)


@pytest.mark.parametrize(("url", "outside"), [
    ("http://127.0.0.1:80/x", False), ("file:///x", False), ("data:,", False), ("blob:http://127.0.0.1/x", False),
    ("https://example.org", True), ("http://127.0.0.1.example.org", True), ("ws://192.168.0.1", True),
    ("file://server/share", True), ("ftp://example.org", True),
])  # fmt: skip
def test_what_leaves_the_machine(url, outside):
    assert leaves(url) is outside
