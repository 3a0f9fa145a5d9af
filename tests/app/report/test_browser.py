"""The report in a real browser, without a network: everything is drawn, every control works, nothing is loaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from snapimpute.app.report.page import write_report
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.estimator import evaluation
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.posterior import Posterior

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("plotly", reason="plotly is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no chromium, chromium-browser or google-chrome on the PATH", allow_module_level=True)


@pytest.fixture(autouse=True)
def short_script() -> None:
    """The page as it is, with plotly.js, which other tests do without."""


HOSTILE = "</script><img src=x onerror=alert(1)>"
BOLD = "<b>bold</b> & 'q' \"Q\""
SIZE = 44, 10
READY = "html[data-ready]"


def survey() -> tuple[Observations, list[Any]]:
    """Columns of three kinds, with names that would do harm if they were taken for markup."""
    rng = np.random.default_rng(2)
    table = rng.standard_normal((SIZE[0], 2)) @ rng.standard_normal((2, SIZE[1]))
    table += 0.3 * rng.standard_normal(SIZE)
    kinds = [["<i>no</i>", HOSTILE, "yes & more"], "0,1", None]
    spec = [kinds[min(j // 4, 2)] for j in range(SIZE[1])]
    for j, kind in enumerate(spec):
        if kind is not None:
            symbols = Alphabet.of(kind).symbols
            cuts = np.quantile(table[:, j], np.linspace(0, 1, symbols.size + 1)[1:-1])
            table[:, j] = symbols[np.searchsorted(cuts, table[:, j])]
    table[rng.random(SIZE) < 0.3] = np.nan
    rows = [f"{HOSTILE} {i}" if i % 2 else f"{BOLD} {'long ' * 40}{i}" for i in range(SIZE[0])]
    cols = [f"{BOLD if j % 2 else HOSTILE} {j}" for j in range(SIZE[1])]
    return Observations.from_dense(table, row_labels=rows, col_labels=cols), spec


class Site(NamedTuple):
    """A page in a browser, and what went wrong on it."""

    page: Any
    problems: list[str]

    def figure(self, host: str) -> str:
        return self.page.evaluate("id => document.getElementById(id).dataset.drawn", host)

    def drawn(self, host: str, name: str) -> None:
        self.page.wait_for_selector(f'#{host}[data-drawn="{name}"]')

    def until(self, expression: str) -> None:
        """Wait; Playwright's own waiting evaluates strings inside the page, which its policy forbids."""
        for _ in range(1200):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {expression}")

    def text_of(self, selector: str) -> str:
        return self.page.eval_on_selector(selector, "one => one.textContent")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    known, spec = survey()
    out = {}
    given = Proximal(center="columns", tol=1e-3, lam=1.0, xi=0.0)
    for name, params in {
        "tuned": {"min_confidence": 0.55, "method": Proximal(center="columns", tol=1e-3)},
        "nearest": {"decide": "nearest", "method": given},
        "blend": {"method": ["habits", given, Posterior(covariance="low-rank", sweeps=60)]},
    }.items():
        imputer = SnapImputer(spec, **params).fit(known)
        out[name] = folder / f"{name}.html"
        settings = {"command": f"snapimpute complete '{HOSTILE}'", "python": "import snapimpute\n", "seed": 0}
        found = evaluation.check(known, imputer)
        write_report(out[name], imputer, known, found, read=[("file", HOSTILE)], settings=settings, title=HOSTILE)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Without a graphics card WebGL, which the 3-D surface needs, runs in software.
        args = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def visit(browser: Any, files: dict[str, Path]) -> Iterator[Callable[..., Site]]:
    """Open a page from its file, offline; every request but that for the file is a problem."""
    contexts = []

    def opened(name: str, **options: Any) -> Site:
        context = browser.new_context(offline=True, **{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page, problems = context.new_page(), []
        page.set_default_timeout(60_000)
        address = files[name].as_uri()
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))

        def asked(request: Any) -> None:
            if request.url.partition("#")[0] != address and not request.url.startswith(("data:", "blob:")):
                problems.append(f"asked for {request.url}")

        page.on("request", asked)
        page.goto(address)
        page.wait_for_selector(READY)
        return Site(page, problems)

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def site(visit: Callable[..., Site]) -> Site:
    return visit("tuned")


@pytest.fixture(scope="module")
def phone(visit: Callable[..., Site]) -> Site:
    return visit("tuned", viewport={"width": 360, "height": 740}, has_touch=True, color_scheme="dark")


@pytest.fixture(autouse=True)
def no_problems(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: no error on the console, none of the page, no dialog, nothing asked for."""
    yield
    for name in ("site", "phone"):
        if name in request.fixturenames:
            assert request.getfixturevalue(name).problems == []


# ---------------------------------------------------------------- drawing
def test_every_figure_is_drawn(site):
    """Each place for a figure has one, with marks in it, as high as it should be."""
    found = site.page.evaluate(
        """() => [...document.querySelectorAll('.canvas')].map(host => ({
            id: host.id, drawn: host.dataset.drawn === host.dataset.figure, traces: (host._fullData || []).length,
            svg: host.querySelectorAll('svg.main-svg').length, high: host.getBoundingClientRect().height,
            failed: host.querySelectorAll('.failed').length}))"""
    )
    assert [one["id"].removeprefix("host-") for one in found] == [
        "choice",
        "convergence",
        "scores",
        "confusion",
        "recall",
        "reliability",
        "table",
        "certainty",
    ]
    for one in found:
        assert one["drawn"], one
        assert one["traces"] >= 1, one
        assert one["svg"] >= 1, one
        assert one["high"] > 150, one
        assert one["failed"] == 0, one


def test_a_page_without_probabilities_is_drawn(visit):
    """With the nearest symbols the page has fewer figures, and no errors."""
    site = visit("nearest")
    hosts = site.page.eval_on_selector_all(".canvas", "all => all.map(one => [one.id, one.dataset.drawn])")
    assert {name for name, _ in hosts}.isdisjoint({"host-reliability", "host-certainty", "host-choice"})
    assert all(drawn for _, drawn in hosts)
    assert site.page.locator('button[data-figure="table-confidence"]').count() == 0
    assert site.problems == []


def test_a_page_of_a_blend_is_drawn(visit):
    """It has a figure of the experts, none of strengths or iterations, and its contents lead to its own sections."""
    site = visit("blend")
    hosts = site.page.eval_on_selector_all(".canvas", "all => all.map(one => [one.id, one.dataset.drawn])")
    names = [name for name, _ in hosts]
    assert "host-experts" in names
    assert {"host-choice", "host-convergence"}.isdisjoint(names)
    assert all(drawn for _, drawn in hosts)
    assert site.page.locator("#experts tbody tr").count() == 3
    assert site.page.locator("#runs .say").count() >= 1
    ids = site.page.eval_on_selector_all("nav a", "all => all.map(one => one.hash.slice(1))")
    assert ids == site.page.eval_on_selector_all("section", "all => all.map(one => one.id)")
    assert site.problems == []


# ---------------------------------------------------------------- controls
@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("choice", ["choice-map", "choice-surface", "choice-curves"]),
        ("table", ["table-completed", "table-confidence", "table-known"]),
    ],
)
def test_buttons_change_the_figure(site, host, names):
    """Each button shows another figure with its own sentence, and only the one that was pressed says so."""
    looks = {site.page.evaluate(f"JSON.stringify(document.getElementById('host-{host}').data)")}
    captions = {site.text_of(f"#caption-{host}")}
    for name in names:
        button = site.page.locator(f'button[data-figure="{name}"]')
        button.focus()
        site.page.keyboard.press("Enter")  # by the keyboard, too
        site.drawn(f"host-{host}", name)
        pressed = site.page.locator(f'.views[data-host="host-{host}"] button[aria-pressed="true"]')
        assert pressed.count() == 1
        assert pressed.get_attribute("data-figure") == name
        looks.add(site.page.evaluate(f"JSON.stringify(document.getElementById('host-{host}').data)"))
        captions.add(site.text_of(f"#caption-{host}"))
    assert len(looks) == len(captions) == 3


def test_the_pictures_of_the_table_show_what_they_say(site):
    """Known, completed and confidence have the cells of the store, at the same places."""
    page = site.page
    cells = page.evaluate("JSON.parse(document.getElementById('report-data').textContent).cells")
    assert {state for row in cells["state"] for state in row} == {"k", "f", "o"}
    counts = {}
    for view in ("completed", "confidence", "known"):
        page.locator(f'button[data-figure="table-{view}"]').click()
        site.drawn("host-table", f"table-{view}")
        counts[view] = page.evaluate("document.getElementById('host-table').data[0].z")
    for i, states in enumerate(cells["state"]):
        for j, state in enumerate(states):
            position, sure = cells["position"][i][j], cells["sure"][i][j]
            assert counts["known"][i][j] == (position if state == "k" else None)
            assert counts["completed"][i][j] == (None if state == "o" else position)
            expected = None if state == "k" or sure is None else 100 * sure
            assert counts["confidence"][i][j] == (expected if expected is None else pytest.approx(expected))


def test_hovering_over_a_cell_says_what_it_is(site):
    """The label names row, column and value, as text."""
    page = site.page
    page.locator("#host-table").scroll_into_view_if_needed()
    box = page.locator("#host-table .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 0.5, box["y"] + 0.5)
    page.mouse.move(box["x"] + 0.45 * box["width"], box["y"] + 0.4 * box["height"], steps=3)
    page.wait_for_selector("#host-table .hoverlayer .hovertext")
    said = site.text_of("#host-table .hoverlayer .hovertext")
    assert "row: " in said
    assert "column: " in said
    assert "known: " in said or "filled in: " in said
    assert "<img src=x onerror=alert(1)>" in said or "<b>bold</b> & 'q' \"Q\"" in said


def test_the_selector_changes_confusion_recall_and_tables(site):
    """Another kind of column shows its own confusion, recall and table."""
    page = site.page
    before = page.evaluate(
        "['confusion', 'recall'].map(n => JSON.stringify(document.getElementById(`host-${n}`).data))"
    )
    assert page.locator("#kind option").count() == 2
    page.locator("#kind").select_option("1")
    site.drawn("host-confusion", "confusion-1")
    site.drawn("host-recall", "recall-1")
    after = page.evaluate(
        "['confusion', 'recall'].map(n => JSON.stringify(document.getElementById(`host-${n}`).data))"
    )
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert page.eval_on_selector_all("[data-kind]", "all => all.map(one => one.hidden)") == [True, False]
    page.locator("#kind").select_option("0")
    site.drawn("host-confusion", "confusion-0")


def test_the_table_of_doubtful_cells_can_be_sorted(site):
    """A click on a head sorts by that column, another one the other way round; numbers as numbers."""
    page = site.page

    def column(place: int) -> list[str]:
        script = "(rows, place) => rows.map(r => r.cells[place].dataset.value ?? r.cells[place].textContent.trim())"
        return page.eval_on_selector_all("#least-certain tbody tr", script, place)

    first = [float(p) for p in column(3)]
    assert first == sorted(first)
    heads = page.locator("#least-certain thead th")
    heads.nth(3).locator("button").click()
    assert heads.nth(3).get_attribute("aria-sort") == "descending"
    assert [float(p) for p in column(3)] == sorted(first, reverse=True)
    heads.nth(1).locator("button").focus()
    page.keyboard.press("Enter")
    assert heads.nth(1).get_attribute("aria-sort") == "ascending"
    assert heads.nth(3).get_attribute("aria-sort") == "none"
    names = column(1)
    groups = list(dict.fromkeys(names))
    assert names == [name for group in groups for name in names if name == group], "equal names stand together"
    heads.nth(1).locator("button").click()
    assert list(dict.fromkeys(column(1))) == groups[::-1]
    assert sorted(column(1)) == sorted(names)
    assert len(groups) > 1


def test_code_can_be_copied(site):
    """The copy button puts the command on the clipboard, and says so."""
    page = site.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("button.copy").first.click()
    site.until("document.getElementById('live').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == f"snapimpute complete '{HOSTILE}'"


def test_contents_lead_to_the_sections(site):
    """A link of the contents scrolls to its section."""
    page = site.page
    page.locator('nav a[href="#settings"]').click()
    site.until("document.getElementById('settings').getBoundingClientRect().top < innerHeight")
    assert page.evaluate("location.hash") == "#settings"


# ---------------------------------------------------------------- theme
INKS = """() => [...document.querySelectorAll('.canvas')].filter(h => h.layout && h.layout.font)
    .map(h => h.layout.font.color)"""


def inks(site: Site, scheme: str) -> None:
    """Wait until the page and every figure have the ink of a theme."""
    ink = {"light": "#1b2526", "dark": "#e4ebe9"}[scheme]
    site.until(f"({INKS})().every(colour => colour === '{ink}')")
    assert len(site.page.evaluate(INKS)) == 8
    rgb = f"rgb({', '.join(str(int(ink[i : i + 2], 16)) for i in (1, 3, 5))})"
    assert site.page.evaluate("getComputedStyle(document.body).color") == rgb
    title = "getComputedStyle(document.querySelector('#host-scores .xtitle')).fill"
    muted = {"light": "rgb(86, 101, 102)", "dark": "rgb(154, 172, 170)"}[scheme]
    site.until(f"{title} === '{muted}'")


def test_the_theme_follows_the_system_and_the_button(site):
    """Figures and page are dark where the system is, and the button turns either into the other."""
    page, toggle = site.page, site.page.locator("#theme")
    inks(site, "light")
    assert toggle.get_attribute("aria-label") == "Switch to the dark theme"
    page.emulate_media(color_scheme="dark")
    inks(site, "dark")
    assert toggle.get_attribute("aria-label") == "Switch to the light theme"
    toggle.click()
    inks(site, "light")
    page.emulate_media(color_scheme="light")
    inks(site, "light")
    toggle.click()
    inks(site, "dark")
    toggle.click()
    inks(site, "light")


def test_paper_is_light_and_has_no_controls(site):
    """For print the page is light whatever the theme, controls are gone, and afterwards all is as before."""
    page = site.page
    page.locator("#theme").click()
    inks(site, "dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    inks(site, "light")
    for selector in ("nav", "#theme", ".views", "button.copy"):
        assert not page.locator(selector).first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    inks(site, "dark")
    page.locator("#theme").click()
    inks(site, "light")


# ---------------------------------------------------------------- small screens
def test_a_phone_needs_no_sideways_scrolling(phone):
    """At 360 pixels the page is as wide as the screen, in every view, and tables scroll in their own boxes."""
    page = phone.page
    inks(phone, "dark")  # the theme of the phone from the start
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate("window.innerWidth") == 360
    assert page.evaluate(wide)
    for host, name in (("choice", "choice-map"), ("choice", "choice-surface"), ("table", "table-completed")):
        page.locator(f'button[data-figure="{name}"]').tap()
        phone.drawn(f"host-{host}", name)
        assert page.evaluate(wide), name
    for summary in page.locator("summary").all():
        if summary.is_visible():
            summary.tap()
    assert page.evaluate(wide)
    boxes = page.eval_on_selector_all(".box", "all => all.map(one => one.scrollWidth > one.clientWidth)")
    assert any(boxes)
    over = page.evaluate(
        """() => [...document.querySelectorAll('.canvas, pre, h1, h2, p, dd, select, button')]
        .filter(one => one.getBoundingClientRect().right > 361 && !one.closest('nav, .box'))
        .map(one => one.outerHTML)"""
    )
    assert over == []


def test_figures_on_a_phone_have_short_names(phone):
    """The layout for narrow screens is taken: fewer names, and no drag that would hold the page."""
    width = phone.page.evaluate("document.getElementById('host-table').layout.xaxis.ticktext.map(t => t.length)")
    assert max(width) < 60
    assert phone.page.evaluate("document.getElementById('host-scores').layout.dragmode") is False
    assert phone.page.evaluate("document.getElementById('host-scores').dataset.narrow") == "true"


# ---------------------------------------------------------------- safety
def test_hostile_names_are_text(site):
    """Names full of markup are shown letter by letter: in the page, in tables, in figures; nothing runs."""
    page = site.page
    assert page.title() == HOSTILE
    assert site.text_of("h1") == HOSTILE
    assert page.evaluate("document.images.length") == 0
    assert page.locator("main b").evaluate_all("all => all.map(one => one.textContent)") == page.locator(
        ".score b, .say p > b"
    ).evaluate_all("all => all.map(one => one.textContent)")
    names = page.eval_on_selector_all("#least-certain .name", "all => all.map(one => one.textContent)")
    assert any(name.startswith(HOSTILE) for name in names)
    assert any(name.startswith(BOLD) for name in names)
    ticks = page.eval_on_selector_all("#host-table .xtick text", "all => all.map(one => one.textContent)")
    assert any(tick.startswith("</script><img src") for tick in ticks)
    assert any(tick.startswith("<b>bold</b> & 'q' ") for tick in ticks)
    assert page.eval_on_selector_all("#host-table .xtick text [style*=bold], svg a", "all => all.length") == 0


def test_a_script_that_slipped_in_would_not_run(site):
    """The policy of the page stops inline handlers and scripts that are not its own."""
    page = site.page
    page.evaluate(
        """() => { const one = document.createElement('script'); one.textContent = 'window.slipped = 1';
        document.body.append(one); const two = document.createElement('div');
        two.innerHTML = '<img src="x" onerror="window.slipped = 2">'; document.body.append(two); }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.slipped === undefined")
    refused = [text for text in site.problems if "Content Security Policy" in text]
    assert len(refused) >= 1
    site.problems[:] = [text for text in site.problems if "Security" not in text and not text.startswith("asked for")]


def test_figures_have_no_button_that_sends_them_away(site):
    """A figure can be saved and reset, nothing else."""
    titles = site.page.eval_on_selector_all(".modebar-btn", "all => all.map(one => one.dataset.title)")
    assert set(titles) <= {"Download plot as a PNG", "Download plot as a png", "Reset axes"}
    assert titles
