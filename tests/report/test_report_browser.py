# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's pages as a browser has them: drawn, linked, narrow, dark, without a mouse."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image

from asymlab.report import compare, pages, papers, published, report, sentences
from asymlab.report.judged import SYMBOLS
from tests.browser import CHROMIUM, DRIVER, Browser
from tests.report.madeup import everything, make, results_of
from tests.shared import REPO

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no browser: apt-get install chromium chromium-driver"),
]
TAB, ENTER = "\ue004", "\ue007"

# Ratio of luminances (WCAG 2) of each text and what is behind it; those below 4.5.
CONTRAST = """
const rgba = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const poor = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (walker.nextNode()) {
  const node = walker.currentNode, at = node.parentElement;
  if (!node.textContent.trim() || ["SCRIPT", "STYLE"].includes(at.tagName) || !at.getClientRects().length) continue;
  let behind = at;
  while (behind && rgba(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const a = luminance(rgba(getComputedStyle(at).color));
  const b = luminance(rgba(getComputedStyle(behind ?? document.body).backgroundColor));
  seen++;
  if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) poor.push(node.textContent.trim());
}
return [seen, poor];
"""


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of a report with all that it can have, and a comparison with another."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "store").mkdir()
    runs = everything(folder / "store")
    runs.append(make(folder / "store", "FA-X2", {"bad": "yes"}, invalid="base RTT: expected 1, measured 2"))
    results = results_of(runs)
    claims = papers.judged("fast", results)
    verdicts = sentences.verdicts(claims, papers.causes("fast"))
    figures = [("fast", f) for f in report.figures_of(papers.module("fast", "figures"), results)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CACHE", folder / "cache")
        report.write(verdicts, figures, runs, "quick", speed={"boot": "1.5 s"}, folder=folder / "a")
        report.write([v | {"verdict": "not reproduced"} for v in verdicts], [], runs[:-3], "quick", folder=folder / "b")
    compared = compare.compare(compare.load(folder / "a"), compare.load(folder / "b"), 0.05)
    published.write_page(REPO / "docs" / "results", folder / "published.html")
    (folder / "compare.html").write_text(compare.page(compared))
    return folder


def files(site: Path) -> dict[str, Path]:
    run = min((site / "a" / "runs").iterdir(), key=lambda p: (p.stat().st_size, p.name))  # the invalid one
    drawn = max((site / "a" / "runs").iterdir(), key=lambda p: (p.stat().st_size, p.name))
    return {
        "index": site / "a" / "index.html",
        "run": drawn,
        "invalid run": run,
        "comparison": site / "compare.html",
        "published": site / "published.html",
    }


PAGES = ("index", "run", "invalid run", "comparison", "published")


@pytest.mark.parametrize("name", PAGES)
def test_all_is_drawn_without_an_error(browser, site, name):
    browser.open(files(site)[name])
    browser.run("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
    images = browser.call(
        "/execute/async",
        {
            "args": [],
            "script": """
        const done = arguments[0], images = [...document.images];
        Promise.allSettled(images.map(i => i.decode()))
          .then(() => done(images.map(i => [i.naturalWidth, i.alt.length])));""",
        },
    )
    pictures = len(list((REPO / "docs" / "results").glob("*/figures/*.png")))
    known = {"index": 1 + 5, "run": 2, "invalid run": 0, "comparison": 0, "published": pictures}
    assert len(images) == known[name]
    assert not [(width, words) for width, words in images if width <= 300 or words <= 40]
    assert [
        entry for entry in browser.call("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")
    ] == []


# Each of these has a link: a row of claims to its runs, a run to its page, a figure to its files, a page to where it
# belongs, a part's number to the part, its rows to the command that repeats them.
LINKED = {
    "index": ("td.links:not(.empty)", "#runs tbody th", "figcaption", ".files"),
    "run": ("header p:first-child",),
    "invalid run": ("header p:first-child",),
    "comparison": ("header nav li",),
    "published": ("[aria-labelledby=counts] tbody tr:not(:last-child) th", "section:has(.cards) caption"),
}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(browser, site, name):
    here = files(site)[name]
    browser.open(here)
    for which in LINKED[name]:
        counts = browser.run(
            f"return [...document.querySelectorAll('{which}')].map(e => e.querySelectorAll('a[href]').length)"
        )
        assert counts and all(counts), which
    links = browser.run("return [...document.querySelectorAll('a[href]')].map(a => a.href)")
    ids = set(browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)"))
    for link in links:
        parts = urlsplit(link)
        assert parts.scheme == "file", link
        target = Path(unquote(parts.path))
        assert target.exists(), link
        if parts.fragment:
            known = ids if target == here else target.read_text()
            assert (unquote(parts.fragment) if target == here else f'id="{unquote(parts.fragment)}"') in known, link


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_does_not_scroll_sideways(browser, site, name, width):
    browser.open(files(site)[name], width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert 0 < browser.run("return document.documentElement.scrollWidth") <= width


# Wider than the window, and in no box that scrolls; of those that do, the first with a figure, a table and a text.
WIDE = """
document.querySelectorAll('details').forEach(d => d.open = true);
const scrolls = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
const cut = [...document.body.querySelectorAll("*")]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => { while (e && !scrolls(e)) e = e.parentElement; return !e; });
const wide = [...document.body.querySelectorAll("*")].filter(e => scrolls(e) && e.scrollWidth > e.clientWidth + 1);
window.boxes = ["img", "table", "code"].map(t => wide.find(e => e.querySelector(t))).filter(e => e);
return [cut.map(e => e.outerHTML.slice(0, 80)), window.boxes.length];
"""
AT_END = """
const box = window.boxes[arguments[0]];
box.scrollLeft = arguments[1] * box.scrollWidth;
const r = box.getBoundingClientRect();
return {x: r.right - 3 + scrollX, y: r.bottom - 5 + scrollY, width: 2, height: 3, scale: 1};
"""


def lightest(browser, box: int, end: int) -> int:
    """The right edge of a box that scrolls, below the words of its last row, scrolled to its start or its end."""
    clip = browser.call("/execute/sync", {"script": AT_END, "args": [box, end]})
    shot = browser.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
    return Image.open(io.BytesIO(base64.b64decode(shot))).convert("L").getextrema()[1]


@pytest.mark.parametrize("name", PAGES)
def test_what_a_phone_cuts_scrolls_and_shows_it(browser, site, name):
    """The edge of a box that has more behind it is shaded."""
    browser.open(files(site)[name], 390)
    cut, boxes = browser.run(WIDE)
    assert cut == [] and boxes >= {"index": 2, "run": 2, "invalid run": 1, "comparison": 1, "published": 3}[name]
    for box in range(boxes):
        assert lightest(browser, box, end=0) < lightest(browser, box, end=1) - 60


def test_figures_say_that_they_scroll_where_they_do(browser, site):
    said = "return getComputedStyle(document.querySelector('figcaption'), '::before').content"
    scrolls = "const b = document.querySelector('figure .box'); return b.scrollWidth > b.clientWidth"
    for name in ("index", "run", "published"):
        for width in (390, 609, 626, 1200):
            browser.open(files(site)[name], width)
            assert ("scrolls" in browser.run(said)) == browser.run(scrolls) == (width < 620), (name, width)


@pytest.mark.parametrize("name", PAGES)
def test_contents_stand_at_the_top(browser, site, name):
    """Each section is in the list, by the id of its heading or of what the heading is of."""
    browser.open(files(site)[name])
    listed = browser.run("return [...document.querySelectorAll('header nav a')].map(a => a.getAttribute('href'))")
    ids = browser.run(
        "return [...document.querySelectorAll('h2')].map(h => '#' + h.closest('[id]:not([id$=-title])').id)"
    )
    assert len(ids) > 2 and listed == ids


@pytest.mark.parametrize("name", ["index", "comparison"])
def test_all_words_of_verdicts_are_explained(browser, site, name):
    browser.open(files(site)[name])
    assert browser.run("return document.querySelectorAll('.legend').length") == 1
    shown = browser.run("return [...document.querySelectorAll('.legend .verdict')].map(e => e.className)")
    assert len(shown) == len(SYMBOLS)
    text = browser.run("return document.querySelector('.legend').textContent")
    assert all(word in text for word in SYMBOLS)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_text_stands_out(browser, site, name, dark):
    browser.open(files(site)[name], dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    back = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") is not dark
    seen, poor = browser.run(CONTRAST)
    assert seen > 30 and poor == []


def focused(browser) -> str:
    return browser.run("return document.activeElement.getAttribute('href') ?? document.activeElement.tagName")


def test_keys_reach_the_first_verdicts_run_and_what_is_folded(browser, site):
    browser.open(files(site)["index"])
    first = browser.run("return document.querySelector('#verdicts tbody a').getAttribute('href')")
    way = []
    while first not in way and len(way) < 20:
        browser.press(TAB)
        way.append(focused(browser))
        if way[-1] == "#claims-fast" or len(way) == 1:  # past the figures; past the contents list
            browser.press(ENTER)
    assert way[0] == "#verdicts" and way[-1] == first and len(way) < 8
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert browser.run("return document.activeElement.getBoundingClientRect().width") > 5
    browser.run("document.querySelector('#verdicts summary').focus()")
    browser.press(ENTER)
    assert browser.run("return document.querySelector('#verdicts details').open")


def test_headers_have_a_scope(browser, site):
    for file in files(site).values():
        browser.open(file)
        assert browser.run("return document.querySelectorAll('th:not([scope])').length") == 0
        assert browser.run("return document.querySelectorAll('table').length") > 0


def test_filter(browser, site):
    browser.open(files(site)["index"])

    def shown(where: str) -> list[str]:
        return browser.run(
            f"return [...document.querySelectorAll('{where} tbody tr')]"
            ".filter(r => r.offsetParent).map(r => r.textContent)"
        )

    everything = len(shown("#verdicts"))
    browser.run(
        "const box = document.querySelector('#verdicts input'); box.value = 'alpha ratio';"
        "box.dispatchEvent(new Event('input'))"
    )
    rows = shown("#verdicts")
    assert 0 < len(rows) < everything and all("alpha" in r and "ratio" in r for r in rows)
    browser.run(
        "const box = document.querySelector('#runs input'); box.value = 'fa-x2'; box.dispatchEvent(new Event('input'))"
    )
    assert (
        len(shown("#runs")) == 2
        and browser.run("return [...document.querySelectorAll('#runs h3')].filter(h => h.offsetParent).length") == 1
    )


def test_reads_without_scripts(browser, site):
    browser.open(files(site)["index"], scripts=False)
    browser.cdp("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("return document.querySelectorAll('input').length") == 0
    assert browser.run("return [...document.querySelectorAll('#verdicts tbody tr')].every(r => r.offsetParent)")
