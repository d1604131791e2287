"""The site: complete, harmless, self-contained, true to the ledger; on small lectures made for the purpose, and on ours."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from helpers.paths import ROOT

from utils.course.__main__ import main
from utils.course.notebooks import ledger
from utils.course.notebooks.notebook import notebooks_in, read
from utils.course.receipts.provenance import hashes_of
from utils.course.receipts.receipts import RUN_KEYS
from utils.napkin import calculators
from utils.site import build as site
from utils.site import frame, prose, search
from utils.site.calculators import SCRIPT, STYLE
from utils.site.commands import run_and_show
from utils.site.lecture import anchor_of

NOTEBOOKS = notebooks_in(ROOT / "notebooks")
HEADER = {
    "date": "2026-01-02T03:04:05+00:00", "form": "short", "gpu": None, "torch": "2.13.0", "python": "3.11.7",
    "device": "cpu", "hardware": "A small processor", "commit": "0123456789abcdef", "dirty": False,
}  # fmt: skip
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)"><a href="javascript:alert(3)">x</a><b onclick="f()">bold</b>'
REMOTE = '<img src="https://example.org/pixel.png"><iframe src="https://example.org"></iframe>'


def markdown(name: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def code(name: str, source: str, outputs=(), *, tags=()) -> dict:
    return {
        "cell_type": "code", "id": name, "metadata": {"tags": list(tags)}, "source": source, "outputs": list(outputs),
        "execution_count": 1,
    }  # fmt: skip


def stream(text: str) -> dict:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data) -> dict:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {key.replace("_", "/", 1): data[key] for key in data},
    }


def error(words: str) -> dict:
    return {
        "output_type": "error",
        "ename": "AssertionError",
        "evalue": words,
        "traceback": [f"\x1b[31m{words}\x1b[0m"],
    }


FIRST = [
    markdown("title", f"# 01 · The first\n\n**The question:** what is 2 < 3?\n\nAnd {EVIL} in prose."),
    code("parameters", "full = False", tags=["parameters"]),
    code("setup", "import torch"),
    markdown("part", "## A part & more\n\nSee [below](#Another-part), [the lab](../labs/01_lab.ipynb), "
             "[no lab](../labs/99.ipynb), [a paper](https://arxiv.org/abs/1706.03762).\n\n| a | b |\n|---|--:|\n| 1 | 2 |"),
    markdown("claim-1-1", "**Claim 1.1.** Two and\ntwo are `4`.\n\nMore words, & more. Compare Claim 2.1 and Claim 7.7."),
    code("proof-1-1", "assert 2 + 2 == 4  # <script>", [stream(f"a < b {EVIL}"), stream("\n")]),
    code("picture-1-1", "draw()", [shown(image_png=PIXEL + "\n", text_plain="<Figure>")]),
    markdown("reading-1-1", "The bar of `zero_grad` is 4 high, not *5*.\n\nNext."),
    markdown("claim-1-2", '**Folklore 1.2.** "It is five", they say, or 5.5. It is four.'),
    code("proof-1-2", "assert 1", [stream("○ 1.2  needs a CUDA GPU")]),
    markdown("claim-1-3", "**Claim 1.3.** Three is two."),
    code("proof-1-3", "assert 3 == 2", [error("assert 3 == 2\n  where 3 = f(<x>)")]),
    markdown("Another-cell", "### Another part\n\n<details><summary>Answer</summary>\n\nIt is **four**.\n\n</details>"),
    code("helper", "no_such_name", [error("no such name")]),
    code("outputs", "show()", [shown(text_html=EVIL + REMOTE), shown(text_plain=EVIL), shown(text_markdown=EVIL)]),
]  # fmt: skip
SECOND = [
    markdown("title", "# 02 · The second\n\nIt answers: nothing. Zebra crossings."),
    markdown("claim-2-1", '**Folklore 2.1.** "One is `"two"`." One is 1,024 times 10⁻¹².'),
    code("proof-2-1", "assert 1"),
]
LAB = [
    markdown("title", "# Lab 01 · A `lab_of` ours\n\nSee [the lecture](../notebooks/01_first.ipynb).\n\n## Do it"),
    code("checks", "%%checks\n# %% it\nexpect_equal(ask('it()'), 7)"),
    code("code-it", "def it():\n    raise NotImplementedError('a lucky number')"),
    code("check-it", 'progress.check("it")'),
    code("picture-it", "%%needs it\ndraw(it())"),
    markdown("reading-it", "The bar is seven high."),
    code("changed", "print('as students get it')"),
    code("asked", "print(words)"),
]
SOLVED = '    lucky = sum(range(4)) + len(f"{1}, no more of it")'  # the line that a student is to find
SOLUTION = [
    LAB[0],
    code("code-it", f"def it():\n    ### BEGIN SOLUTION: a lucky number\n{SOLVED}\n    return lucky\n    ### END SOLUTION",
         [stream("told by the code")]),
    code("check-it", "expect_equal(ask('it()'), 7)", [stream("told by the check")]),
    code("picture-it", "draw(it())", [
        stream("seven of seven\n"), shown(image_png=PIXEL, text_plain="<Figure>"), stream(f"def it():\n{SOLVED}\n"),
        {"output_type": "stream", "name": "stderr", "text": "a warning with code"},
    ]),
    LAB[5],
    code("changed", "print(lucky)", [stream("told by a cell of its own")]),
    code("asked", "print(words)", [stream("1, no more of it, they say")]),
]  # fmt: skip


def write(path: Path, cells: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def keep(folder: Path, paths: list[Path]) -> None:
    """A ledger of these notebooks as if they had just been executed, with their copies where `run` puts them."""
    results = []
    for path in paths:
        copy = folder / "notebooks" / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        results.append(ledger.judge(read(path), read(copy), cuda=False, full=False, seconds=93.0))
    ledger.write(folder / "ledger.json", HEADER, results)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The site of two small lectures and a lab."""
    folder = tmp_path_factory.mktemp("site")
    write(folder / "labs" / "01_lab.ipynb", LAB)
    keep(folder, [write(folder / "01_first.ipynb", FIRST), write(folder / "02_second.ipynb", SECOND)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "LABS", folder / "labs")
        assert site.build(folder) == folder / "site" / "index.html"
    return folder / "site"


class Page(HTMLParser):
    """What a browser would see: every element with its attributes, and what is wrong with the nesting."""

    VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))
    SINGLE = frozenset(("script", "style", "title"))

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.open, self.elements, self.problems, self.text = path, [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.problems += [f"<{name}> is not closed" for name in self.open]
        ids = [each["id"] for _, each in self.elements if "id" in each]
        self.problems += [f"the id {name!r} stands twice" for name in {name for name in ids if ids.count(name) > 1}]
        self.ids = set(ids)

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if len(dict(attributes)) < len(attributes):
            self.problems.append(f"an attribute of {self.get_starttag_text()} stands twice")
        if name not in self.VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        if name in self.VOID:
            return
        if not self.open or self.open.pop() != name:
            self.problems.append(f"</{name}> at line {self.getpos()[0]} closes nothing")

    def handle_data(self, data):
        self.text.append(data)

    def of(self, *names: str) -> list[dict]:
        return [attributes for name, attributes in self.elements if name in names]


def pages(folder: Path) -> dict[str, Page]:
    return {path.name: Page(path) for path in sorted(folder.glob("*.html"))}


def broken_links(folder: Path) -> list[str]:
    """Each address on the site that leads nowhere."""
    found, all_pages = [], pages(folder)
    for name, page in all_pages.items():
        for address in [each["href"] for each in page.of("a", "link") if "href" in each]:
            target, mark, place = address.partition("#")
            there = not target or (folder / target).is_file()
            if there and mark and not re.match(r"https?:", address):
                there = bool({place, unquote(place)} & all_pages[target or name].ids)
            if not there and not re.match(r"https?:", address):
                found.append(f"{name}: {address}")
    return found


def loaded(page: Page) -> list[str]:
    """What a browser loads with the page."""
    sources = [each["src"] for _, each in page.elements if "src" in each] + [each["href"] for each in page.of("link")]
    return [source for source in sources if not source.startswith("data:image/")]


# Small lectures


def test_pages_are_well_formed_and_every_link_leads_somewhere(made):
    assert {page: each.problems for page, each in pages(made).items() if each.problems} == {}
    assert broken_links(made) == []
    names = {"index", "folklore", "ledger", "calculators", "01_first", "02_second", "lab_01_lab"}
    assert {path.stem for path in made.glob("*.html")} == names


def test_what_a_cell_prints_stands_in_one_box_also_if_it_was_flushed_in_between(made):
    proof = BeautifulSoup((made / "01_first.html").read_text(), "html.parser").find(id="proof-1-1")
    assert [box.text for box in proof.select(".output pre")] == [f"a < b {EVIL}\n"]


def test_the_checks_of_links_and_nesting_can_fail(made, tmp_path):
    (tmp_path / "a.html").write_text('<div id="x"><p id="x">one</div><a href="b.html">b</a><a href="#y">y</a>')
    assert len(Page(tmp_path / "a.html").problems) == 3
    assert broken_links(tmp_path) == ["a.html: b.html", "a.html: #y"]


def test_nothing_is_loaded_from_elsewhere(made):
    for name, page in pages(made).items():
        assert set(loaded(page)) <= {"site.css", "site.js", "player.js", "icon.svg", SCRIPT, STYLE}, name
        (policy,) = [each["content"] for each in page.of("meta") if "http-equiv" in each]
        assert "default-src 'none'" in policy and "http" not in policy and "unsafe" not in policy
    for name in ("site.css", "site.js", "player.js", "search.js", SCRIPT, STYLE):
        text = (
            (made / name).read_text().replace("http://www.w3.org/2000/svg", "")
        )  # the name of a language, not a place
        assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|https?://", text), name


def test_no_script_of_a_lecture_survives(made):
    for name, page in pages(made).items():
        assert all(each.keys() <= {"src", "defer"} for each in page.of("script")), name
        handlers = [key for _, each in page.elements for key in each if key.startswith("on")]
        assert handlers == [] and page.of("iframe", "object", "embed", "style") == []
        assert not [each for _, each in page.elements if "style" in each], (
            "the page's policy refuses it, and says so aloud"
        )
        assert not [each for each in page.of("a") if each.get("href", "").startswith(("javascript", "data"))]
    text = (made / "01_first.html").read_text()
    assert "a &lt; b &lt;script&gt;alert(1)" in text and "<b>bold</b>" in text
    assert "alert(1)" not in prose.clean(EVIL) and "example.org" not in prose.clean(REMOTE)


@pytest.mark.parametrize(
    ("html", "left"),
    [
        (EVIL, "<img>x<b>bold</b>"),
        (REMOTE, "<img>"),
        ("<svg><script>a</script></svg><style>p {}</style><template>b</template><noscript>c</noscript>d", "d"),
        ('<a href="https://a.org" rel="x" target="_top">a</a>', '<a href="https://a.org">a</a>'),
        ('<a href="data:text/html,x">a</a>', "a"),
        ('<a href="#elsewhere">a</a>', "a"),
        ('<img alt="a" src="data:image/png;base64,AA">', '<img alt="a" src="data:image/png;base64,AA">'),
        ('<img alt="a" src="data:text/html,x">', '<img alt="a">'),
        ('<p style="color: red" title="t">a</p>', '<p title="t">a</p>'),
        ('<input type="text">', "<input>"),
        ('<input type="checkbox" disabled="" checked="">', '<input checked="" disabled="" type="checkbox">'),
        ("<unknown>a</unknown><!-- b -->", "a"),
    ],
)
def test_what_is_left_of_html(html, left):
    assert BeautifulSoup(prose.clean(html), "html.parser") == BeautifulSoup(left, "html.parser")


def test_each_claim_stands_on_its_page_with_what_its_proof_came_to(made):
    page = (made / "01_first.html").read_text()
    sections = re.findall(r'<section id="(claim-[\d-]+)" class="cell claim (\w+) (\w+)">(.*?)</section>', page, re.S)
    assert [section[:3] for section in sections] == [
        ("claim-1-1", "claim", "verified"),
        ("claim-1-2", "folklore", "unverified"),
        ("claim-1-3", "claim", "failed"),
    ]
    words = [prose.plain(section[3]) for section in sections]
    assert "✓ verified (CPU, " in words[0]
    assert "○ not verified: needs a CUDA GPU (CPU, " in words[1]
    assert "✗ failed: assert 3 == 2 (CPU, " in words[2] and "where 3 = f(<x>)" in words[2]
    assert '<a class="to-claim" href="02_second.html#claim-2-1">Claim 2.1</a> and Claim 7.7' in page


def test_the_ledger_page_has_each_claim_once(made):
    rows = re.findall(r'<tr class="(\w+) (\w+)" id="row-([\d-]+)">', (made / "ledger.html").read_text())
    written = json.loads((made.parent / "ledger.json").read_text())["claims"]
    expected = [(row["status"], row["kind"].lower(), row["id"]) for row in written]
    assert [
        (name.replace("unverified", "not verified"), kind, id_.replace("-", ".")) for name, kind, id_ in rows
    ] == expected


def test_receipts_are_shown_and_stale_ones_as_stale(tmp_path):
    path = write(tmp_path / "01_first.ipynb", FIRST)
    keep(tmp_path, [path])
    injected = code("injected", "full = True", tags=["injected-parameters"])
    write(tmp_path / "notebooks" / "01_first.ipynb", [*FIRST[:2], injected, *FIRST[2:]])
    statuses = {"1.1": "verified", "1.2": "verified", "1.3": "failed"}
    rows = [
        {"id": number, "status": statuses[number], "reason": "", "on_device": True, **hashes}
        for number, hashes in hashes_of(read(path)).items()
    ]
    rows[0]["computes"] = "0" * 64
    rows[1]["compared"] = "ratio 0.21 < 0.5"
    run_there = dict.fromkeys(RUN_KEYS, "") | {"device": "cuda", "torch": "2.11.0", "form": "full"}
    run_there["date"] = "2026-02-03T04:05:06+00:00"
    receipt = {
        "gpu": "NVIDIA Q1",
        "runs": [run_there],
        "lectures": {"01_first": {"run": 0, "claims": rows}},
        "solutions": {},
    }
    (tmp_path / "receipts").mkdir()
    (tmp_path / "receipts" / "q1.json").write_text(json.dumps(receipt))
    made = site.build(tmp_path, tmp_path / "receipts").parent
    index, table = (prose.plain((made / name).read_text()) for name in ("index.html", "ledger.html"))
    summary = (
        "NVIDIA Q1: 1 claim verified there, 1 failed, 1 stale: changed since (torch 2.11.0, full form, 2026-02-03)"
    )
    assert summary in index and summary in table and "No claim has been verified on a GPU" not in index + table
    assert "verified on CPU: 1, NVIDIA Q1: 1" in index
    page = (made / "ledger.html").read_text()
    assert re.findall(r'<td class="receipt" data-label="on GPUs: "><span class="(\w+)">', page) == [
        *("stale", "verified", "failed"),
    ]
    verdicts = re.findall(r'<p class="verdict">(.*?) <a', (made / "01_first.html").read_text())
    stale = "verified once, its proof has changed since (NVIDIA Q1, torch 2.11.0, 2026-02-03)"
    assert f'· <span class="unverified">{stale}</span>' in verdicts[0]
    verified = "verified on NVIDIA Q1, torch 2.11.0, 2026-02-03: ratio 0.21 &lt; 0.5"
    assert f'· <span class="verified">{verified}</span>' in verdicts[1]


def test_calculators_stand_on_their_page_and_in_their_lecture(made, tmp_path):
    assert "None of the lectures on this site has a calculator" in (made / "calculators.html").read_text()
    cells = [*SECOND, code("calculator-matmul", "calculators.show('matmul')", [shown(text_html="<p>first</p>")])]
    keep(tmp_path, [write(tmp_path / "02_second.ipynb", cells)])
    site.build(tmp_path)
    page, lecture = Page(tmp_path / "site" / "calculators.html"), Page(tmp_path / "site" / "02_second.html")
    assert page.problems == [] and broken_links(tmp_path / "site") == []
    assert "02_second.html#calculator-matmul" in [each["href"] for each in page.of("a")]
    for each in (page, lecture):
        assert [found["data-calculator"] for _, found in each.elements if "data-calculator" in found] == ["matmul"]
        assert [found["src"] for found in each.of("script")][2:] == [SCRIPT] and STYLE in loaded(each)
        assert (tmp_path / "site" / SCRIPT).exists() and (tmp_path / "site" / STYLE).exists()
    assert len(Page(made / "01_first.html").of("script")) == 2, "none there, none loaded"
    text = prose.plain(page.path.read_text())
    for name, words in calculators.states("matmul").items():  # for browsers without JavaScript
        assert f"{name} {' '.join(words)}" in text
    assert '<div class="html"><p>first</p></div>' in lecture.path.read_text()


def test_a_lecture_knows_its_neighbours_its_contents_and_its_pictures(made):
    first, second = (made / "01_first.html").read_text(), (made / "02_second.html").read_text()
    assert 'rel="next" href="02_second.html"' in first and 'rel="prev"' not in first
    assert 'rel="prev" href="01_first.html"' in second and 'rel="next"' not in second
    assert re.findall(r'<li class="level-\d"><a href="#[^"]+">(.*?)</a>', first) == [
        "A part &amp; more",
        "Another part",
    ]
    assert f'src="data:image/png;base64,{PIXEL}" alt="The bar of zero_grad is 4 high, not 5."' in first
    assert '<th class="figure">b</th>' in first and '<td class="figure">2</td>' in first
    assert '<a href="lab_01_lab.html">the lab</a>, no lab,' in first
    assert '<a href="01_first.html">the lecture</a>' in (made / "lab_01_lab.html").read_text()


def test_the_cells_of_the_set_up_are_one_and_keep_their_places(made):
    page = Page(made / "01_first.html")
    text = page.path.read_text()
    assert text.count("<summary>set-up</summary>") == 1
    assert {"parameters", "setup"} <= page.ids
    soup = BeautifulSoup(text, "html.parser")
    assert soup.select_one("#parameters pre").get_text().split() == ["full", "=", "False", "import", "torch"]


def test_the_side_bar_leads_to_all_lectures_and_labs_and_marks_the_page(made):
    for name in ("01_first", "02_second", "lab_01_lab"):
        soup = BeautifulSoup((made / f"{name}.html").read_text(), "html.parser")
        links = soup.select("aside .contents a")
        assert {"01_first.html", "02_second.html", "lab_01_lab.html"} <= {link["href"] for link in links}
        assert [link["href"] for link in links if link.get("aria-current") == "page"] == [f"{name}.html"]
        headings = [link["href"] for link in links if link["href"].startswith("#")]
        assert headings == {"01_first": ["#A-part-&-more", "#Another-part"], "lab_01_lab": ["#Do-it"]}.get(name, [])
    lab = BeautifulSoup((made / "lab_01_lab.html").read_text(), "html.parser")
    assert [(link["rel"], link["href"]) for link in lab.select("aside .walk a[rel]")] == [
        (["prev"], "01_first.html"),
        (["next"], "02_second.html"),
    ]


def test_code_in_a_title_is_code(made):
    for page, where in (("index", ".lecture-card"), ("01_first", "aside"), ("01_first", ".walk-on")):
        soup = BeautifulSoup((made / f"{page}.html").read_text(), "html.parser")
        assert [code.get_text() for code in soup.select(f"{where} a[href='lab_01_lab.html'] code")] == ["lab_of"], where
    assert "<title>Lab 01 · A lab_of ours ·" in (made / "lab_01_lab.html").read_text()


def test_the_index_begins_with_a_claim_and_the_way_of_the_reader(tmp_path):
    cells = [
        markdown("title", "# 07 · The seventh\n\n[New here?](start_here.ipynb)"),
        *seventh("**Claim 7.1.** It is so."),
    ]
    keep(tmp_path, [write(tmp_path / "07_memory_to_the_byte.ipynb", cells)])
    site.build(tmp_path)
    page = BeautifulSoup((tmp_path / "site" / "index.html").read_text(), "html.parser")
    assert page.select_one("blockquote .to-claim")["href"] == "07_memory_to_the_byte.html#claim-7-1"
    assert (tmp_path / "site" / page.select_one("figure img")["src"]).exists()
    assert "07_memory_to_the_byte.html" in [link["href"] for link in page.select(".paths li a")]
    assert broken_links(tmp_path / "site") == []
    assert (tmp_path / "site" / "start_here.html").exists()


def seventh(claim: str) -> list[dict]:
    told = markdown("claim-7-1", claim)
    return [told | {"metadata": {"name": site.HOOKED}}, code("proof-7-1", "assert 1")]


def test_pictures_are_stored_with_short_numbers(tmp_path):
    picture = '<svg xmlns="http://www.w3.org/2000/svg"><path d="M 1.23456 -0.999999 L 20.5 3"/><text>0.001</text></svg>'
    cells = [*SECOND, code("picture-2-1", "draw()", [shown(**{"image_svg+xml": picture})])]
    keep(tmp_path, [write(tmp_path / "02_second.ipynb", cells)])
    site.build(tmp_path)
    (found,) = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", (tmp_path / "site" / "02_second.html").read_text())
    assert '"M 1.23 -1.00 L 20.5 3"/><text>0.001<' in base64.b64decode(found).decode()


def test_what_a_labs_checks_ask_is_folded_and_the_students_cells_are_not(made):
    lab = (made / "lab_01_lab.html").read_text()
    assert re.findall(r'<details class="source"( open="")?><summary>([\w-]+)</summary>', lab) == [
        ("", "set-up"),
        *[(' open=""', "code")] * 4,
    ]


def test_the_index_says_what_each_lecture_answers_and_what_it_came_to(made):
    text = prose.plain((made / "index.html").read_text())
    assert "01 The first What is 2 < 3? 3 claims: ✓ 1 ○ 1 ✗ 1 1 broken cell verified on CPU: 1" in text
    first = (made / "01_first.html").read_text()
    assert '✗ broken cell</span> <a href="#helper">helper</a>: no such name</p>' in first
    assert "strength –" in text and "93 s" in text and "Nothing. Zebra crossings." in text
    assert "A small processor, torch 2.13.0" in text


def test_folklore_is_parted_into_what_is_told_and_what_holds(made):
    page = (made / "folklore.html").read_text()
    told = re.findall(r'<p class="saying">(.*?)</p>\s*<p class="truth">(.*?)</p>', page)
    assert told == [
        ('"It is five", they say, or 5.5.', "It is four."),
        ('"One is <code>"two"</code>."', "One is 1,024 times 10⁻¹²."),
    ]


def luminance(colour: str) -> float:
    """Of "#rrggbb", by WCAG 2."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_code_can_be_read_in_light_and_in_dark(made):
    style = (made / "site.css").read_text()
    papers = re.search(r"--raised: light-dark\((#\w{6}), (#\w{6})\)", style).groups()
    tokens = re.findall(r"^\.highlight \.(\w+) \{ color: light-dark\((\S+), (\S+)\)", style, re.M)
    assert {"k", "s2", "c1", "mi", "o"} <= {name for name, *_ in tokens}
    read_by_people = [each for each in tokens if each[0] not in ("w", "err") and not each[0].startswith("g")]
    faint = [
        (name, colour)
        for name, *colours in read_by_people
        for colour, paper in zip(colours, papers, strict=True)
        if colour != "currentcolor" and contrast(colour, paper) < 4.5
    ]
    assert faint == [] and round(contrast("#ffffff", "#767676"), 2) == 4.54


def test_the_search_finds_claims_headings_and_text(made):
    script = (made / "search.js").read_text()
    records = json.loads(script.removeprefix("window.COURSE = ").removesuffix(";\n"))
    at = {title: place for place, (_, title) in enumerate(records["pages"])}
    first = at["01 · The first"]
    assert [
        first,
        "claim-1-1",
        "claim",
        "Claim 1.1",
        "Two and two are 4. More words, & more. Compare Claim 2.1 and Claim 7.7.",
    ] in (records["texts"])
    assert [first, "Another-part", "heading", "Another part", ""] in records["texts"]
    assert [first, "Another-cell", "text", "", "Answer It is four."] in records["texts"]
    assert any(record[0] == at["Lab 01 · A lab_of ours"] for record in records["texts"])
    folklore = [record for record in records["texts"] if record[2] == "folklore"]
    assert [record[3] for record in folklore] == ["Folklore 1.2", "Folklore 2.1"]
    ids = {page: each.ids for page, each in pages(made).items()}
    assert all(record[1] in ids[records["pages"][record[0]][0]] for record in records["texts"])


def test_the_index_of_the_search_cannot_leave_its_script(tmp_path):
    search.write(tmp_path / "search.js", [("a.html", "</script>\u2028", (("x", "text", "", "one\u2029two"),))])
    text = (tmp_path / "search.js").read_text()
    assert text.count("\n") == 1 and "\u2028" not in text and "\u2029" not in text


def test_a_page_that_is_too_large_is_refused_and_the_old_site_stays(made, monkeypatch):
    monkeypatch.setattr(frame, "LIMIT", 6000)
    monkeypatch.setattr(site, "LABS", made.parent / "labs")
    with pytest.raises(ValueError, match=r"01_first.html would have [\d,]+ bytes"):
        site.build(made.parent)
    assert (made / "index.html").exists() and list(made.parent.glob("site.*")) == []


def test_a_lecture_that_did_not_run_is_on_the_index_without_a_page(tmp_path):
    keep(tmp_path, [write(tmp_path / "01_first.ipynb", FIRST), write(tmp_path / "02_second.ipynb", SECOND)])
    (tmp_path / "notebooks" / "02_second.ipynb").unlink()
    site.build(tmp_path)
    assert not (tmp_path / "site" / "02_second.html").exists() and broken_links(tmp_path / "site") == []
    assert "The second did not run" in prose.plain((tmp_path / "site" / "index.html").read_text())
    assert 'id="row-2-1"' in (tmp_path / "site" / "ledger.html").read_text()


def test_second_readings_stand_beside_their_lecture_or_alone(tmp_path):
    cells = {
        name: [markdown("title", f"# {name[:2]} · {name[3:].capitalize()}")]
        for name in ("01_more", "01_most", "02_else")
    }
    deeper = [write(tmp_path / "deeper" / f"{name}.ipynb", own) for name, own in cells.items()]
    keep(tmp_path, [write(tmp_path / "01_first.ipynb", FIRST), *deeper])
    (tmp_path / "notebooks" / "01_most.ipynb").unlink()
    site.build(tmp_path)
    page = BeautifulSoup((tmp_path / "site" / "index.html").read_text(), "html.parser")
    first, other = page.select(".lecture-card")
    assert [" ".join(item.get_text().split()) for item in first.select(".beside li")] == [
        "Second reading More ✓ 0",
        "Second reading Most did not run",
    ]
    assert other.select_one("h3 a")["href"] == "02_else.html" and broken_links(tmp_path / "site") == []


# What stands beside the lectures


@pytest.fixture
def with_lab(tmp_path, monkeypatch):
    """build() makes the site of a lecture and a lab whose solution is stored; ran(cells) keeps an executed copy of it."""
    write(tmp_path / "labs" / "01_lab.ipynb", LAB)
    write(tmp_path / "solutions" / "01_lab.ipynb", SOLUTION)
    monkeypatch.setattr(site, "LABS", tmp_path / "labs")
    monkeypatch.setattr(site, "SOLUTIONS", tmp_path / "solutions")
    keep(tmp_path, [write(tmp_path / "01_first.ipynb", FIRST)])

    def ran(cells: list[dict]) -> BeautifulSoup:
        write(tmp_path / "beside" / "01_lab.ipynb", cells)
        page = site.build(tmp_path).parent / "lab_01_lab.html"
        return BeautifulSoup(page.read_text(), "html.parser")

    return ran


def test_a_lab_shows_the_pictures_of_a_finished_one_and_nothing_of_its_solution(with_lab):
    page = with_lab(SOLUTION)
    (picture,) = page.select("main img")
    assert picture["src"].endswith(PIXEL) and picture["alt"] == "The bar is seven high."
    assert page.find(id="picture-it").find("img") and "From a finished lab." in page.find(id="picture-it").get_text()
    words = page.get_text()
    assert "seven of seven" in words and "raise NotImplementedError('a lucky number')" in words
    assert "those of a finished lab" in page.select_one("main > .note").get_text()
    for secret in ("lucky = ", "range(4)", "SOLUTION", "return lucky", "told by", "a warning", "no more of it"):
        assert secret not in words, secret


@pytest.mark.parametrize("why", ["its code has changed since it ran", "one of its cells failed"])
def test_a_lab_whose_solution_did_not_run_is_shown_as_it_is(with_lab, why):
    changed = [*SOLUTION[:-1], code("asked", "print(other_words)")]
    failed = [*SOLUTION[:-1], {**SOLUTION[-1], "outputs": [error("no luck")]}]
    page = with_lab(changed if "changed" in why else failed)
    assert page.select("main img, main .output") == [] and "finished lab" not in page.get_text()
    assert "A lab, as students get it. " in page.get_text()


def test_a_picture_before_a_heading_is_described_by_what_was_said_before_it(tmp_path):
    more = [
        markdown("intro", "A first paragraph.\n\nHere are *five* of each kind."),
        code("draw", "draw()", [shown(image_png=PIXEL)]),
        markdown("part", "## Another part\n\nOf something else."),
    ]
    keep(tmp_path, [write(tmp_path / "02_second.ipynb", [*SECOND, *more])])
    page = BeautifulSoup((site.build(tmp_path).parent / "02_second.html").read_text(), "html.parser")
    assert [picture["alt"] for picture in page.select("main img")] == ["Here are five of each kind."]


def test_the_page_for_newcomers_shows_what_its_cells_print(tmp_path, monkeypatch):
    cells = [
        markdown("title", "# Start here\n\nSee [01](01_first.ipynb)."),
        code("draw", "draw()", [stream("five of each"), shown(image_png=PIXEL)]),
        markdown("reading", "Clothes, on black."),
    ]
    start = write(tmp_path / "start_here.ipynb", [cells[0], code("draw", "draw()"), cells[2]])
    monkeypatch.setattr(site, "START", start)
    first = [*FIRST, markdown("new", "[New here?](start_here.ipynb)")]
    keep(tmp_path, [write(tmp_path / "01_first.ipynb", first)])
    write(tmp_path / "beside" / "start_here.ipynb", cells)

    def page() -> str:
        return (site.build(tmp_path).parent / "start_here.html").read_text()

    assert f'{PIXEL}" alt="Clothes, on black."' in page() and "<pre>five of each</pre>" in page()
    assert "As it is stored" not in page() and "A small processor" in page()
    write(start, [cells[0], code("draw", "draw(5)"), cells[2]])
    assert PIXEL not in page() and "As it is stored, without what its cells print." in page()


def test_a_false_belief_does_not_look_like_a_truth_also_when_its_proof_holds(tmp_path):
    keep(tmp_path, [write(tmp_path / "01_first.ipynb", FIRST), write(tmp_path / "02_second.ipynb", SECOND)])
    made = site.build(tmp_path).parent
    first, second = (
        BeautifulSoup((made / name).read_text(), "html.parser") for name in ("01_first.html", "02_second.html")
    )
    belief, truth, unproved = second.find(id="claim-2-1"), first.find(id="claim-1-1"), first.find(id="claim-1-2")
    assert "verified" in belief["class"] and "verified" in truth["class"]
    assert belief.select_one(".verdict").get_text().startswith("a false belief, put right · ✓ verified")
    assert unproved.select_one(".verdict").get_text().startswith("a false belief · ○ not verified")
    assert truth.select_one(".verdict").get_text().startswith("✓ verified")
    style = (made / "site.css").read_text()
    colours = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", style))
    assert colours["belief"] not in [colours[name] for name in ("verified", "unverified", "failed", "link")]
    papers = colours["paper"].split(", ")
    assert min(contrast(*pair) for pair in zip(colours["belief"].split(", "), papers, strict=True)) > 4.5


def test_the_index_says_what_it_is_and_under_which_licence(made, monkeypatch):
    def index() -> BeautifulSoup:
        return BeautifulSoup((site.build(made.parent).parent / "index.html").read_text(), "html.parser")

    page = index()
    described = page.find("meta", attrs={"name": "description"})["content"]
    assert described
    assert page.find("meta", property="og:description")["content"] == described
    (licence,) = [link for link in page.find_all("a") if "licence" in link.get_text()]
    assert "Permission is hereby granted" in (made / licence["href"]).read_text()
    known = frame.project_facts()
    assert known["repository"].startswith("https://") or not known["repository"]
    monkeypatch.setattr(frame, "project_facts", lambda: known | {"repository": "https://example.org/course"})
    assert "https://example.org/course" in [link["href"] for link in index().find_all("a")]
    lecture = BeautifulSoup((made / "01_first.html").read_text(), "html.parser")
    assert lecture.find("meta", attrs={"name": "description"})["content"] == "What is 2 < 3?"
    assert lecture.find("meta", property="og:title")["content"] == "01 · The first · The Honest Training Loop"


# When it is made


def test_what_has_changed_since_it_ran_is_stale(tmp_path):
    paths = [write(tmp_path / "01_first.ipynb", FIRST), write(tmp_path / "02_second.ipynb", SECOND)]
    assert "no ledger" in site.reason_stale(tmp_path, paths)
    keep(tmp_path, paths[:1])
    assert site.reason_stale(tmp_path, paths[:1]) == ""
    assert site.reason_stale(tmp_path, paths) == "02_second has not run"
    keep(tmp_path, paths)
    injected = code("injected", "full = True", tags=["injected-parameters"])
    write(tmp_path / "notebooks" / "01_first.ipynb", [*FIRST[:2], injected, *FIRST[2:]])
    assert site.reason_stale(tmp_path, paths) == ""
    write(paths[1], [*SECOND[:-1], code("proof-2-1", "assert 2")])
    assert site.reason_stale(tmp_path, paths) == "02_second has changed since it ran"


def test_site_runs_the_lectures_first_only_where_it_must(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "01_first.ipynb", FIRST)
    ran = []
    monkeypatch.setattr("utils.site.commands.find", lambda paths, lectures: [path])
    monkeypatch.setattr("utils.site.commands.run", lambda paths, folder, beside, timeout: ran.append(paths) or 1)
    monkeypatch.setattr(site, "notebooks_beside", list)
    assert main(["site", "--build", str(tmp_path)]) == 1 and ran == [[path]]
    assert "no ledger" in capsys.readouterr().err
    keep(tmp_path, [path])
    assert main(["site", "--build", str(tmp_path)]) == 0 and ran == [[path]]
    assert capsys.readouterr().out == f"open {tmp_path / 'site' / 'index.html'}\n"


def test_site_runs_what_stands_beside_the_lectures_only_where_it_must(tmp_path, monkeypatch):
    path, solution = write(tmp_path / "01_first.ipynb", FIRST), write(tmp_path / "solutions" / "01_lab.ipynb", SOLUTION)
    ran = []
    monkeypatch.setattr("utils.site.commands.find", lambda paths, lectures: [path])
    monkeypatch.setattr("utils.site.commands.run_beside", lambda paths, folder, timeout: ran.append(paths) or 0)
    monkeypatch.setattr(site, "notebooks_beside", lambda: [solution])
    keep(tmp_path, [path])
    assert main(["site", "--build", str(tmp_path)]) == 0 and ran == [[solution]]
    write(tmp_path / "beside" / "01_lab.ipynb", SOLUTION)
    assert main(["site", "--build", str(tmp_path)]) == 0 and ran == [[solution]]
    write(tmp_path / "beside" / "01_lab.ipynb", [*SOLUTION[:-1], {**SOLUTION[-1], "outputs": [error("no luck")]}])
    assert main(["site", "--build", str(tmp_path)]) == 0 and ran == [[solution]] * 2, "what failed runs again"
    write(solution, SOLUTION[:-1])
    assert main(["site", "--build", str(tmp_path)]) == 0 and ran == [[solution]] * 3


@pytest.mark.slow
def test_pages_that_cannot_be_made_cost_no_verdict(tmp_path, monkeypatch, capsys):
    def fail(folder):
        raise RuntimeError("no such template")

    monkeypatch.setattr("utils.site.build.build", fail)
    path = write(tmp_path / "01_first.ipynb", [FIRST[0], code("parameters", "full = False", tags=["parameters"])])
    assert run_and_show([path], tmp_path / "build") == 1
    assert json.loads((tmp_path / "build/ledger.json").read_text())["lectures"][0]["failed"] == 0
    assert "the pages could not be made: RuntimeError: no such template" in capsys.readouterr().out


# Our lectures


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_folklore_of_our_lectures_has_two_halves(path):
    for claim in read(path).claims:
        if claim.kind in site.BELIEFS:
            saying, truth = site.saying_and_truth(claim.text)
            assert prose.plain(saying) and len(prose.plain(truth)) > 10, claim.number


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_our_lectures_formulas_are_typeset(path):
    """What is no TeX to the converter stays as it was typed, with its backslashes."""
    for cell in read(path).cells:
        if cell.kind == "markdown":
            page = BeautifulSoup(prose.clean(prose.markdown(cell.source)), "html.parser")
            for formula in page.find_all("math"):
                assert not re.search(r"[\\&$]", formula.get_text()) and len(formula.get_text()) < 200, cell.id
            for code in page.find_all(["code", "pre"]):
                code.decompose()
            assert not re.search(r"\$[^$]+\$|\\[a-z({\[]", page.get_text()), cell.id


def test_a_formula_is_mathml(made):
    page = prose.clean(prose.markdown(r"Here $\frac{a}{b^2}$ and `$x$`, for \$5 or \$6.\n\n$$\sqrt{x} < 1$$"))
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><msup><mi>b</mi><mn>2</mn></msup></mrow></mfrac>" in page
    assert "<code>$x$</code>, for $5 or $6." in page and '<math display="block"><mrow><msqrt>' in page
    assert "<script" not in prose.clean(prose.markdown("$a<script>alert(1)</script>b$"))


@pytest.mark.slow
def test_the_site_of_our_lectures_is_whole(tmp_path):
    """Without outputs, since nothing runs here: every page, link, claim and piece of folklore."""
    keep(tmp_path, NOTEBOOKS)
    made = site.build(tmp_path).parent
    assert {page: each.problems for page, each in pages(made).items() if each.problems} == {}
    assert broken_links(made) == []
    claims = [claim for path in NOTEBOOKS for claim in read(path).claims]
    every = {name: page.ids for name, page in pages(made).items()}
    for path in NOTEBOOKS:
        assert {anchor_of(claim.number) for claim in read(path).claims} <= every[f"{path.stem}.html"]
    assert len(re.findall(r'<tr class="\w+ \w+" id="row-', (made / "ledger.html").read_text())) == len(claims)
    told = re.findall(
        r'<section class="folklore-card \w+" id="folklore-([\w-]+)">', (made / "folklore.html").read_text()
    )
    assert [number.replace("-", ".") for number in told] == [
        each.number for each in claims if each.kind in site.BELIEFS
    ]
    labs = {path.stem for path in (ROOT / "labs").glob("*.ipynb")}
    assert {path.stem.removeprefix("lab_") for path in made.glob("lab_*.html")} == labs
