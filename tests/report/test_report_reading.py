"""What a reader of a page is told, and what a page does in a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pages import DATASET, put, put_run, score

from oryx_marl.report import charts, page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
KEYS = """<script>
const press = (key, on) => on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const viewer = document.getElementById("viewer");
const seen = [];
const note = () => seen.push(viewer.dataset.place);
if (viewer.classList.contains("playing")) press(" ", document.body);
seen.push(viewer.classList.contains("playing"));
press("ArrowRight", document.body); note();
press("ArrowRight", document.body); note();
press("ArrowLeft", document); note();
press("ArrowRight", document.getElementById("speed")); note();
press("Home", document.body); note();
press("Home", document.getElementById("frame")); note();
document.body.dataset.seen = seen.join(" ");
document.getElementById("copy").click();
setTimeout(() => (document.body.dataset.copied = document.getElementById("copy").textContent), 300);
</script>"""


def text_of(folder: Path) -> str:
    return page.write(folder).read_text(encoding="utf-8")


def replace_in(folder: Path, name: str, **values: object) -> None:
    put(folder, name, {**json.loads((folder / name).read_text()), **values})


@pytest.mark.skipif(BROWSER is None, reason="there is no browser here")
def test_keys_need_no_click_and_the_command_is_copied(tmp_path: Path) -> None:
    text = text_of(put_run(tmp_path))
    # What plays the reader is a script too, so that of the page must not be the only one here.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (tmp_path / "tried.html").write_text(text.replace("</body>", f"{KEYS}</body>"))
    done = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=1000",
            "--dump-dom",
            (tmp_path / "tried.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 'data-seen="false 1 2 1 1 1 0"' in done.stdout
    assert re.search(r'data-copied="(Copied|Press Ctrl\+C)"', done.stdout)


def test_the_script_listens_to_the_whole_page(tmp_path: Path) -> None:
    """And may run: the page forbids every script but its own."""
    text = text_of(put_run(tmp_path))
    assert 'document.addEventListener("keydown"' in text
    assert 'closest("input, select' in text
    assert '<button type="button" id="copy"' in text
    assert "navigator.clipboard" in text
    assert 'document.execCommand("copy")' in text  # where a page of a disk has no clipboard
    assert text.count("<script") == 2


def test_the_replay_says_which_episodes_it_shows(tmp_path: Path) -> None:
    text = text_of(put_run(tmp_path))
    assert "The first 1 episode that the final weights of the first seed (number 4)" in text
    assert "not chosen" in text


def test_why_there_is_no_replay(tmp_path: Path) -> None:
    (put_run(tmp_path) / "replay.npz").unlink()
    assert "this one runs outside of JAX or draws none" in text_of(tmp_path)
    replace_in(tmp_path, "config.json", evaluation={"replays": 0})
    assert "it was trained with replays 0" in text_of(tmp_path)
    (tmp_path / "replay.npz").write_text("no zip")
    text = text_of(tmp_path)
    assert "replay.npz of this run cannot be read" in text
    assert "outside of JAX" not in text


def test_numbers_are_explained_beside_them(tmp_path: Path) -> None:
    folder = put_run(tmp_path, word="valid_label_share")
    held_out = {key: score(0.75, 0.5, 1.0)[key] for key in ("mean", "low", "high", "per_seed")}
    put(
        folder,
        "held_out.json",
        {
            "episodes": 4,
            "steps": 9,
            "agreement": held_out,
            "log_likelihood": held_out,
            "guess": {"agreement": 0.25, "log_likelihood": -1.5},
        },
    )
    text = text_of(folder)
    for term in (
        "valid-label share",
        "effective sample size",
        "spread within a seed",
        "action accuracy",
        "held-out log-likelihood",
        "marginal-action baseline",
        "95% interval",
        "largest |logit|",
    ):
        assert f"<dt>{term}</dt><dd>" in text, term
    assert '<span title="share of a batch' in text


def test_equal_seeds_have_no_interval(tmp_path: Path) -> None:
    """Two seeds that both solve everything looked like certainty: [1.00, 1.00]."""
    folder = put_run(tmp_path)
    replace_in(folder, "summary.json", last={"sampled": score(1.0, 1.0, 1.0)}, best={})
    text = text_of(folder)
    assert '<span class="value">1.00</span>' in text
    assert 'class="range"' not in text
    assert "all seeds score the same, so there is no interval" in text
    assert "[1.000, 1.000]" not in text


def test_an_axis_does_not_leave_its_bounds() -> None:
    """That of a success rate ran to 1.6 where every seed solved everything."""
    assert charts.axis([1.0, 1.0], 5).high > 1.5
    for values in ([1.0, 1.0], [0.93, 1.0], [0.0, 0.4], [0.0, 0.0], [0.97, 0.99]):
        up = charts.axis(values, 5, bounds=(0.0, 1.0))
        assert 0 <= up.low <= min(values) <= max(values) <= up.high <= 1
        assert len(up.ticks) >= 2


def test_the_axes_of_shares_end_at_1(tmp_path: Path) -> None:
    folder = put_run(tmp_path)
    ones = {"step_count": 3000, "elapsed_time": 9.0, "return": [1.0, 1.0]}
    seeds = {f"seed_{seed}": {"step_0": ones} for seed in (4, 5)}
    put(folder, "eval.json", {"tmaze": {"tmaze/expert": {"oryx": seeds}}})
    put(folder, "dataset.json", {"name": "d", **DATASET, "returns": {"mean": 1.0}})
    text = text_of(folder)
    (curve,) = re.findall(r'<div class="plot curve".*?</svg>', text, re.DOTALL)
    ticks = re.findall(r'<span style="bottom:[^"]*">([^<]*)</span>', curve)
    assert max(float(tick) for tick in ticks) == 1
    line = np.array([[0.7, 1.0], [0.8, 1.0]])
    small = charts.small(np.array([1.0, 2.0]), line, "share", (0.0, 1.0))
    assert ">1.2<" not in small
