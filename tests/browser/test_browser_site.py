"""The site, as `make site` left it in build/site/: wide and narrow, light and dark, from a server and from the disk."""

import pytest
from browsing import NARROW, PAPER, ROOT, cut, faint, kept_out, leaves, served, too_wide

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE = ROOT / "build" / "site"
WIDE = {"width": 1400, "height": 900}
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


def test_no_page_scrolls_sideways_on_a_phone(on_disk, page):
    page.set_viewport_size(NARROW)
    found = {}
    for file in sorted(SITE.glob("*.html")):
        page.goto(f"{on_disk}/{file.name}")
        found |= {file.name: wide} if (wide := too_wide(page)) else {}
    assert found == {}


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
    rows = page.locator("tr:has(td):has(a)")
    texts = [row.split("\t")[1].split() for row in rows.all_inner_texts()]
    place = next(n for n, text in enumerate(texts) if sum(set(text[:6]) <= set(other) for other in texts) == 1)
    number, words = rows.nth(place).locator("a").first.inner_text().split()[-1], " ".join(texts[place][:6])
    page.locator("#find").fill(words)  # all at once, before the index has come
    page.locator("#found a").first.wait_for()
    assert number in page.locator("#found a").first.inner_text()
    page.locator("#find").fill("zyzzyva")
    page.get_by_text("Nothing found").wait_for()
    assert page.watch.problems == []


@pytest.mark.parametrize("words", ["stride", "warmup", "warm-up", "bf16 vs fp16", "ZeRO", "autograd", "zero_grad"])
def test_search_finds_claims_before_all_else(on_disk, page, words):
    page.goto(f"{on_disk}/index.html")
    page.locator("#find").fill(words)
    page.locator("#found a").first.wait_for()
    names = page.locator("#found a > b").all_inner_texts()
    assert names[0].split()[0] in ("Claim", "Folklore", "Misconception"), names[:3]
    assert page.locator("#found a").first.locator("mark").count() > 0


@pytest.mark.parametrize(
    ("question", "plain"), [("what is a stride?", "stride"), ("claim 7.4", "7.4"), ("Claim 0.1.", "0.1")]
)
def test_search_takes_questions_and_numbers_as_people_write_them(on_disk, page, question, plain):
    page.goto(f"{on_disk}/index.html")
    found, as_plain = (
        page.evaluate("words => courseSearch(words).then(found => found[0].title)", words)
        for words in (question, plain)
    )
    assert found == as_plain
    assert (
        found.split()[1] == plain if plain[0].isdigit() else found.split()[1].startswith("1.")
    )  # lecture 01, on strides


def test_what_is_chosen_in_the_search_has_a_name_and_it_closes_when_left(on_disk, page):
    page.goto(f"{on_disk}/index.html")
    page.locator("#find").fill("stride")
    page.locator("#found a").first.wait_for()
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#find").get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    page.locator("footer").evaluate("footer => { footer.tabIndex = 0; footer.focus(); }")
    assert not page.locator("#found").is_visible()


def test_search_folds_what_people_do_not_type(on_disk, page):
    page.goto(f"{on_disk}/index.html")
    found = {}
    for words in ("warmup", "warm-up", "ZeRO", "2^24", "2²⁴"):
        found[words] = page.evaluate(
            "words => courseSearch(words).then(found => found.map(each => each.address))", words
        )
    assert found["warmup"] == found["warm-up"] and found["2^24"] == found["2²⁴"]
    written = page.evaluate("courseSearch('ZeRO').then(found => found.map(each => each.words + each.title))")
    assert all("ZeRO" in words for words in written[:4])


@pytest.fixture(scope="module")
def on_disk():
    return SITE.as_uri()


@pytest.mark.parametrize("name", [*PAGES, "start_here"])
def test_nobody_is_kept_out(on_disk, page, name):
    page.goto(f"{on_disk}/{name}.html")
    found = {}
    for dark, size in ((False, WIDE), (True, NARROW)):
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.set_viewport_size(size)
        found[f"{dark=} at {size['width']}"] = kept_out(page)
    assert {where: what for where, what in found.items() if what} == {}


def test_who_is_kept_out_is_noticed(page):
    page.set_content("<!doctype html><html lang='en'><title>x</title><main><img src='data:,'><input></main>")
    assert {each.split(":")[0] for each in kept_out(page)} == {"image-alt", "label"}


@pytest.mark.parametrize("name", PAGES)
def test_code_fits_its_column_and_paper(on_disk, page, name):
    page.goto(f"{on_disk}/{name}.html")
    page.set_viewport_size(WIDE)
    assert cut(page, ".source pre") == []
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size(PAPER)
    assert brightness(page) > 200, "paper is white"
    assert page.locator("header, aside, footer, button").filter(visible=True).count() == 0
    assert cut(page, "pre") == [] and too_wide(page) == []
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_cut_code_is_noticed(page):
    page.set_content(
        "<!doctype html><pre style='width: 99px; overflow: auto'>a long line of code, and more of it</pre>"
    )
    assert len(cut(page, "pre")) == 1


def test_what_scrolls_can_be_reached_by_keyboard(on_disk, page):
    page.set_viewport_size(NARROW)
    page.goto(f"{on_disk}/07_memory_to_the_byte.html")
    scrolls = page.locator("pre[tabindex='0'], .wide[tabindex='0']")
    assert scrolls.count() > 5
    first = scrolls.filter(visible=True).first
    assert "scrolls sideways" in first.get_attribute("aria-label")
    first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")


def test_the_side_bar_follows_the_reader(on_disk, page):
    page.set_viewport_size(WIDE)
    page.goto(f"{on_disk}/07_memory_to_the_byte.html")
    marked = page.locator(".contents .headings a[aria-current]")
    headings = page.locator("main h2").all()
    for heading in (headings[3], headings[-1], headings[1]):
        heading.evaluate("heading => heading.scrollIntoView()")
        words = heading.evaluate("heading => heading.firstChild.textContent")
        marked.filter(has_text=words).wait_for()
        assert marked.count() == 1
        top = marked.bounding_box()["y"]
        assert 0 < top < WIDE["height"], "the mark is in view"
    assert [link.get_attribute("href") for link in page.locator(".walk a:visible").all()] == [
        "06_optimizers_and_schedules.html", "08_mixed_precision.html",
    ]  # fmt: skip


def test_the_side_bar_follows_the_window_and_the_tasks_of_a_lab(on_disk, page):
    contents = page.locator(".contents > nav")
    for before, after in ((800, 1280), (1280, 640)):
        page.set_viewport_size({"width": before, "height": 900})
        page.goto(f"{on_disk}/lab_01_views_and_attention.html")
        page.set_viewport_size({"width": after, "height": 900})
        contents.wait_for(state="visible" if after > before else "hidden")
    page.set_viewport_size(WIDE)
    page.locator("main h2", has_text="Task 2").first.evaluate("heading => heading.scrollIntoView()")
    page.locator(".contents .headings a[aria-current]", has_text="Task 2").wait_for()


def test_the_ledger_shows_what_its_lists_say_also_after_going_back(on_disk, page):
    page.goto(f"{on_disk}/ledger.html")
    counts = {}
    for kind in ("folklore", "misconception"):
        page.locator("#status").select_option(kind)
        counts[kind] = page.locator("#shown").inner_text()
    assert counts["folklore"] != counts["misconception"]
    page.locator("tr:visible a[href*='#claim']").first.click()
    page.wait_for_url("**#claim-*")
    page.go_back()
    page.wait_for_function("() => document.getElementById('status').value === 'misconception'")
    page.get_by_text(counts["misconception"]).wait_for()


def test_on_a_phone_there_is_a_menu_and_a_way_to_the_search(on_disk, page):
    page.set_viewport_size(NARROW)
    page.goto(f"{on_disk}/07_memory_to_the_byte.html#claim-7-3")
    page.locator(".contents > summary").click()
    page.locator(".contents").get_by_role("link", name="The pencil", exact=True).click()
    page.wait_for_url("**#*pencil*")
    assert not page.locator(".contents > nav").is_visible()
    page.locator(".to-search").click()
    assert page.evaluate("() => document.activeElement.id") == "find"
    page.goto(f"{on_disk}/ledger.html")
    tab = page.locator(".bar nav [aria-current]").bounding_box()
    assert tab["x"] >= 0 and tab["x"] + tab["width"] <= NARROW["width"]


def test_a_claim_can_be_copied_with_its_address(address, new_page):
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/07_memory_to_the_byte.html")
    claim = page.locator("#claim-7-3")
    claim.hover()
    claim.locator("button.copy").click()
    claim.get_by_text("copied").wait_for()
    text = page.evaluate("() => navigator.clipboard.readText()")
    assert " 7.3. " in text[:20] and text.endswith("07_memory_to_the_byte.html#claim-7-3)")


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
