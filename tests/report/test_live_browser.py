"""The live page in a real browser: offline, on a phone, by keyboard alone, and where it cannot run.

    python -m pytest -m slow tests/report/test_live_browser.py

It takes the Chromium on the path, or the one that the variable CHROMIUM names.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import live_pages
import pytest
from browser import Page, find_browser, launch
from live_pages import ENVS

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; install one"),
]
STATE = "document.documentElement.dataset.live"
FOCUS = "document.activeElement.id || document.activeElement.className"
BARS = """[...document.querySelectorAll("#live-actions .now")].map((each) => each.style.width)"""
FREE = """[...document.querySelectorAll("#live-actions button")]
  .findIndex((each) => !each.disabled && !each.classList.contains("planned"))"""
SAID = "document.getElementById('live-say').textContent"
BROKEN = {
    "no typed arrays": "delete window.Float32Array;",
    "no canvas": "HTMLCanvasElement.prototype.getContext = function () {"
    " if (this.id === 'live-board') throw new Error('no canvas'); return null; };",
    "other numbers": "const exp = Math.exp; Math.exp = (x) => exp(x) + 1;"
    "Math.sqrt = () => 0; Math.tanh = (x) => -x;",
}


@pytest.fixture(scope="module", params=sorted(ENVS))
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    return live_pages.write_page(folder / "page.html", ENVS[request.param], "oryx")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    assert BROWSER is not None
    with launch(BROWSER, tmp_path) as found:
        found.resize(1100, 900)
        yield found


def paused(page: Page, address: str) -> None:
    """The page at the start of its first episode, with the focus on the board."""
    page.open(address)
    page.run("document.getElementById('live-board').focus()")
    page.wait_for("document.getElementById('live').classList.contains('playing')")
    page.press(" ")
    page.press("r")
    page.wait_for("document.getElementById('live-where').textContent === 'step 0'")


@pytest.mark.parametrize("size", [(1100, 900, False), (375, 667, True)])
def test_actions_equal_the_recorded_ones(page: Page, address: str, size: tuple) -> None:
    page.resize(*size)
    page.open(f"{address}#selfcheck")
    assert page.run(STATE) == "live"
    found = json.loads(page.run("document.getElementById('selfcheck').textContent"))
    assert len(found["episodes"]) == 3
    assert all(each["isEqual"] for each in found["episodes"])
    assert found["reactions"]["same_step"] > 1e-4
    assert found["reactions"]["next_step"] > 1e-4
    assert page.errors == []
    assert {each.split(",")[0] for each in page.loaded} == {
        f"{address}#selfcheck".partition("#")[0],
        "data:image/png;base64",
    }
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_keyboard_alone(page: Page, address: str) -> None:
    """Every control is reached with Tab, shows its focus, and does what it says."""
    page.open(address)
    order = []
    for _ in range(40):
        page.press("Tab")
        order.append(page.run(FOCUS))
        if order[-1] == "live-switch-button":
            break
        outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline not in ("none", ""), order[-1]
    controls = ["live-board", "live-restart", "live-play", "live-step", "live-speed"]
    assert order[:7] == [*controls, "live-start", "live-noise"]
    assert any(each.startswith("agent") for each in order)
    assert any(each.startswith("action") for each in order)
    named = page.run(
        "[...document.querySelectorAll('#live button')].every((each) => each.ariaLabel)"
    )
    assert named
    paused(page, address)
    page.press("ArrowRight")
    assert page.run("document.getElementById('live-where').textContent").startswith("step 1")
    assert "equals the recorded one" in page.run(SAID)
    page.press("Tab")
    page.press("Enter")  # on Restart
    assert page.run("document.getElementById('live-where').textContent") == "step 0"
    assert page.errors == []


def test_an_agent_moved_by_hand_changes_the_others(page: Page, address: str) -> None:
    paused(page, address)
    page.press("ArrowDown")  # to the second agent
    assert page.run("document.getElementById('live-name').textContent") == "agent_1"
    before = page.run(BARS)
    page.press("ArrowUp")
    page.press(str(page.run(FREE) + 1))
    assert "You act for agent_0" in page.run(SAID)
    assert "by hand" in page.run("document.querySelector('#live-agents .chance').textContent")
    page.press("ArrowDown")
    page.wait_for("document.getElementById('live-before').style.visibility === 'visible'")
    assert page.run(BARS) != before
    page.press("Escape")
    assert page.run(BARS) == before
    page.press("ArrowUp")
    page.press(str(page.run(FREE) + 1))
    page.press("ArrowRight")
    assert "another course" in page.run(SAID)
    assert page.errors == []


def test_fingers_on_a_phone(page: Page, address: str) -> None:
    page.resize(375, 667, True)
    page.open(address)
    page.tap("#live-play")
    page.tap("#live-restart")
    page.tap("#live-agents li:nth-child(2) button")
    assert page.run("document.getElementById('live-name').textContent") == "agent_1"
    page.tap(f"#live-actions li:nth-child({page.run(FREE) + 1}) button")
    assert "You act for agent_1" in page.run(SAID)
    page.tap("#live-step")
    assert page.run("document.getElementById('live-where').textContent").startswith("step 1")
    # The board stays in sight while an action is chosen, and nothing is wider than the screen.
    page.run("document.querySelector('#live-actions li:last-child').scrollIntoView({block: 'end'})")
    assert page.run("document.getElementById('live-board').getBoundingClientRect().top >= 0")
    assert page.run(
        "[...document.querySelectorAll('#live *')]"
        ".every((each) => each.getBoundingClientRect().right <= innerWidth + 1)"
    )
    sizes = page.run(
        "[...document.querySelectorAll('#live button')].map((each) => each.offsetHeight)"
    )
    assert min(sizes) >= 40


@pytest.mark.parametrize("how", BROKEN)
def test_where_it_cannot_run_the_recorded_pictures_are_shown(
    page: Page, address: str, how: str
) -> None:
    page.before_scripts(BROKEN[how])
    page.open(address)
    assert page.run(STATE) != "live"
    assert page.run("document.getElementById('live').hidden")
    assert not page.run("document.getElementById('viewer').hidden")
    assert "recorded pictures" in page.run("document.getElementById('live-why').innerText")
    if how != "no canvas":
        page.wait_for("document.getElementById('viewer').dataset.place > 0")  # it plays


def test_a_fault_while_it_plays(page: Page, address: str) -> None:
    paused(page, address)
    page.run("Math.exp = () => { throw new Error('out of order') }")
    page.press("ArrowRight")
    assert page.run(STATE) == "failed"
    assert "out of order" in page.run("document.getElementById('live-why').innerText")
    page.wait_for("document.getElementById('viewer').dataset.place > 0")


def test_a_script_that_cannot_be_read(page: Page, address: str, tmp_path: Path) -> None:
    """As in a browser of years ago: what plays the recorded pictures runs all the same."""
    path = Path(address.removeprefix("file://"))
    text = path.read_text(encoding="utf-8").replace("const Graph = (", "const Graph = = (")
    (tmp_path / "old.html").write_text(text, encoding="utf-8")
    page.open((tmp_path / "old.html").as_uri())
    assert page.run(STATE) is None
    assert "recorded pictures" in page.run("document.getElementById('live-why').innerText")
    page.wait_for("document.getElementById('viewer').dataset.place > 0")
