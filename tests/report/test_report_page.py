"""Pages of tiny runs: the right numbers, nothing unescaped, and errors that people can use."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import put, put_run, score

from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.report import page

EVIL = '<script>alert(\'"&")</script>'


def replay_data(text: str) -> Any:
    """What the page hands to the viewer."""
    found = re.search(r'id="replay-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_page_shows_the_run(tmp_path: Path) -> None:
    written = page.write(put_run(tmp_path))
    assert written == tmp_path / "report.html"
    assert not list(tmp_path.glob("*.partial"))
    text = written.read_text(encoding="utf-8")
    assert '<span class="value">0.98</span> <span class="range">[0.96, 1.00]</span>' in text
    assert "2 seeds × 320 sampled episodes with the final weights" in text
    assert "trained in 20.0 s" in text
    assert "oryx train oryx tmaze/expert --updates 3000 --seeds 2 --first-seed 4" in text
    assert text.count('<tr><th scope="row">') + text.count('<tr class="chosen">') == 2 + 3
    assert "0.960 1.000" in text  # each seed
    assert "0.125 0.250" in text  # spread within a seed
    assert "dataset mean 0.93" in text
    assert "learned policy 0.75 (last" in text  # mean of 0.5 and 1
    assert "51,234" in text
    assert "<dt>policy temperature</dt><dd>0.1</dd>" in text
    assert "Never above 7; warns above 100." in text
    assert 'class="rings"' not in text


def test_page_shows_what_the_environment_reports(tmp_path: Path) -> None:
    """Each metric with its weights, way of acting, mean and interval; nothing where none is."""
    folder = put_run(tmp_path)
    assert "What the environment reported" not in page.write(folder).read_text(encoding="utf-8")
    values = json.loads((folder / "summary.json").read_text())
    values["last"]["sampled"]["metrics"] = {
        "units_lost": score(2.5, 2.0, 3.0),
        EVIL: {"mean": 1.5, "low": None, "high": None, "per_seed": [1.5]},
    }
    put(folder, "summary.json", values)
    text = page.write(folder).read_text(encoding="utf-8")
    results = text[text.index("<h2>Results</h2>") :]
    row = (
        '<th scope="row">units lost</th><td>final weights</td><td class="acting">sampled</td>'
        '<td class="result">2.500</td><td class="between">[2.000, 3.000]</td>'
    )
    assert row in results
    assert results.count('<th scope="col">metric</th>') == 1
    assert EVIL not in text


def test_learning_curve_is_the_mean_of_seeds(tmp_path: Path) -> None:
    text = page.write(put_run(tmp_path)).read_text(encoding="utf-8")
    # From 0 to the mean of 0.5 and 1 on an axis from 0 to 1.
    assert '<path class="mean" d="M0 1000L1000 250"/>' in text
    assert '<th scope="row">3,000</th><td>0.750</td><td>[0.000, 1.000]</td><td>0.500</td>' in text


def test_replay_holds_every_step(tmp_path: Path) -> None:
    (episode,) = replay_data(page.write(put_run(tmp_path)).read_text(encoding="utf-8"))
    assert (episode["frames"], episode["width"], episode["height"]) == (3, 6, 4)
    assert episode["actions"] == [["up", "stay"], ["up", "stay"]]
    assert episode["so_far"] == ["0", "0.25", "0.75"]
    head, data = episode["sheet"].split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data).startswith(b"\x89PNG")


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    text = page.write(put_run(tmp_path, EVIL, EVIL)).read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert text.count("<script") == 2  # the viewer and its data
    assert text.count("</script>") == 2
    (episode,) = replay_data(text)
    assert episode["actions"][0][0] == EVIL


def test_page_loads_nothing(tmp_path: Path) -> None:
    text = page.write(put_run(tmp_path)).read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|url\(", text)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', text)) == {"data:,"}


def test_page_of_many_frames_is_small(tmp_path: Path) -> None:
    put_run(tmp_path)
    frames = np.full((20, 200, 200, 3), 240, np.uint8)
    for place, frame in enumerate(frames):
        frame[10 * place : 10 * place + 10, 50:60] = (30, 110, 110)
    captions = [{"title": str(n), "return": 1.0, "steps": []} for n in range(6)]
    arrays = {f"frames_{n}": frames for n in range(6)}
    np.savez(tmp_path / "replay.npz", captions=np.array(json.dumps(captions)), **arrays)
    assert page.write(tmp_path).stat().st_size < 200_000


def test_optional_files_may_be_missing(tmp_path: Path) -> None:
    put_run(tmp_path)
    for name in ("spec.json", "metrics.jsonl", "summary.json", "dataset.json", "replay.npz"):
        (tmp_path / name).unlink()
    text = page.write(tmp_path, tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    for name in ("spec.json", "metrics.jsonl", "summary.json", "dataset.json", "replay.npz"):
        assert text.count(f"This run has no {name}, so ") == 1
    # Without a summary the result is the mean of the last evaluation, cut as a rate: 0s and 1s.
    assert '<span class="metric">mean return</span> <span class="value">0.75</span>' in text
    assert "[0.00, 1.00]" in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("spec.json", '{"agents": 3}'),
        ("summary.json", '{"metric": "x", "episodes": 3, "last": {"sampled": {}}}'),
        ("dataset.json", "[]"),
        ("replay.npz", "no zip"),
    ],
)
def test_damaged_optional_file_is_told_quietly(tmp_path: Path, name: str, content: str) -> None:
    (put_run(tmp_path) / name).write_text(content)
    text = page.write(tmp_path).read_text(encoding="utf-8")
    assert f"{name} of this run cannot be read (" in text


def test_a_damaged_line_of_the_log_is_told_and_the_others_are_shown(tmp_path: Path) -> None:
    path = put_run(tmp_path) / "metrics.jsonl"
    whole = page.write(tmp_path).read_text(encoding="utf-8")
    path.write_text("\xff{\n" + path.read_text())
    with pytest.warns(OryxWarning, match=r"metrics\.jsonl has damaged lines, .*: 1 \("):
        assert page.write(tmp_path).read_text(encoding="utf-8") == whole
    path.write_text("[]\n")
    with pytest.warns(OryxWarning, match="damaged lines"):
        text = page.write(tmp_path).read_text(encoding="utf-8")
    assert "metrics.jsonl of this run cannot be read (" in text


def test_half_a_last_line_is_forgiven(tmp_path: Path) -> None:
    with (put_run(tmp_path) / "metrics.jsonl").open("a") as file:
        file.write('{"update": 300, "sec')
    assert "trained in 20.0 s" in page.write(tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["config.json", "eval.json"])
@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "is missing"), ("{", "is damaged"), ("{}", "is damaged"), ("[1]", "not an object")],
)
def test_required_files(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    path = put_run(tmp_path) / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(OryxError, match=said) as caught:
        page.write(tmp_path)
    assert str(path) in str(caught.value)
    assert "oryx train" in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_folder_and_target_must_exist(tmp_path: Path) -> None:
    with pytest.raises(OryxError, match="there is no run at"):
        page.write(tmp_path / "nowhere")
    with pytest.raises(OryxError, match="choose another place"):
        page.write(put_run(tmp_path), tmp_path)


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    put_run(tmp_path)
    (tmp_path / "summary.json").unlink()
    steps = {"step_0": {"step_count": 10, "return": [3.0, 4.0]}}
    put(tmp_path, "eval.json", {"e": {"t": {"oryx": {"seed_4": steps}}}})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    assert '<span class="value">3.50</span>' in text
    assert 'class="range"' not in text
    assert "one seed says nothing about the spread between seeds" in text


def test_warnings_stand_in_the_head_of_the_page(tmp_path: Path) -> None:
    put_run(tmp_path)
    lines = [
        {"max_logit": [20.0, 1900.0], "effective_sample_size": [0.3, 0.3], "loss": [1.0, 1.0]},
        {"max_logit": [20.0, 150.0], "effective_sample_size": [0.3, 0.01], "loss": [1.0, None]},
        {"max_logit": [20.0, 150.0], "effective_sample_size": [0.3, 0.02]},
    ]
    text = "\n".join(json.dumps({"update": k * 10, "metrics": m}) for k, m in enumerate(lines))
    (tmp_path / "metrics.jsonl").write_text(text)
    written = page.write(tmp_path).read_text(encoding="utf-8")
    head = written[: written.index("</header>")]
    assert "Reached 1,900, above 100" in head
    assert "Only 0.02 of the rows at the end, below 0.05" in head
    assert "Not finite at update 10, seed 5." in head


def test_intervals_are_those_of_the_summary(tmp_path: Path) -> None:
    """They were cut at the episodes of other weights and of another way of acting."""
    put_run(tmp_path)
    wide = score(-0.8, -3.77, 2.18) | {"metrics": {"success": score(0.5, 0.0, 1.0)}}
    put(tmp_path, "summary.json", {"metric": "return", "episodes": 9, "last": {"greedy": wide}})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    assert '<span class="range">[−3.77, 2.18]</span>' in text
    assert '<td class="between">[−3.770, 2.180]</td>' in text
    assert '<td class="between">[0.000, 1.000]</td>' in text


def test_every_way_of_acting_has_its_worst_tenth_and_length(tmp_path: Path) -> None:
    put_run(tmp_path)
    old = page.write(tmp_path).read_text(encoding="utf-8")
    assert "worst tenth" not in old  # of a run that does not know it
    assert "actions sampled: not chosen" in old
    whole = score(0.5, 0.4, 0.6) | {
        "worst_tenth": score(0.123, 0.1, 0.2),
        "length": score(17.0, 16.0, 18.0),
    }
    ways = {"0.25": whole, "<b>": score(0.25, 0.2, 0.3)}
    put(tmp_path, "summary.json", {"metric": "return", "episodes": 9, "last": ways})
    config = json.loads((tmp_path / "config.json").read_text())
    put(tmp_path, "config.json", config | {"evaluation": {"act": [0.25, "greedy"]}})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    heads = text[text.index('<table class="results">') :]
    assert '<th scope="col">worst tenth</th><th scope="col">episode length</th>' in heads
    assert '<td class="acting">0.25</td>' in text
    assert 'data-name="worst tenth">0.123 [0.100,&nbsp;0.200]</td>' in text
    assert 'data-name="episode length">17.00 [16.00,&nbsp;18.00]</td>' in text
    assert '<td class="acting">&lt;b&gt;</td>' in text
    assert text.count('">–</td>') == 2  # the worst tenth and length that are not known
    assert "CVaR at 10%" in text
    assert "9 episodes at temperature 0.25" in text
    assert "actions drawn at temperature 0.25: not chosen" in text


def test_a_curve_is_cut_only_where_its_episodes_are_0_or_1(tmp_path: Path) -> None:
    put_run(tmp_path)
    (tmp_path / "summary.json").unlink()
    seeds = {f"seed_{s}": {"step_0": {"step_count": 9, "return": [0.0, s]}} for s in (1.0, 2.0)}
    put(tmp_path, "eval.json", {"e": {"t": {"oryx": seeds}}})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    # The means 0.5 and 1: 0.75 ± 12.706 * 0.25
    assert '<span class="range">[−2.43, 3.93]</span>' in text
    assert "<td>[−2.427, 3.927]</td>" in text
    assert "t over seeds." in text


def test_dataset_without_finite_returns(tmp_path: Path) -> None:
    card = {"name": "logs", "transitions": 3, "episodes": 1, "agents": ["a", "b"]}
    nothing = {"mean": None, "std": None, "min": None, "max": None}
    put_run(tmp_path)
    put(
        tmp_path,
        "dataset.json",
        card | {"returns": nothing, "histogram": {"edges": [], "counts": []}},
    )
    text = page.write(tmp_path).read_text(encoding="utf-8")
    assert "<dt>agents</dt><dd>2</dd>" in text
    assert "dataset mean" not in text


def test_dataset_with_one_return_says_so(tmp_path: Path) -> None:
    card = {"name": "logs", "returns": {"mean": 1.0}}
    put_run(tmp_path)
    put(tmp_path, "dataset.json", card | {"histogram": {"edges": [0.5, 1.5], "counts": [9]}})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    assert "Every logged episode of logs has the return 1." in text
    assert text.count('class="bar"') == 3


def test_without_an_environment_what_was_predicted_heads_the_page(tmp_path: Path) -> None:
    folder = put_run(tmp_path)
    predicted = {
        "episodes": 40,
        "steps": 512,
        "action_accuracy": {key: score(0.75, 0.5, 1.0)[key] for key in ("mean", "low", "high")},
        "log_likelihood": None,
        "baseline": {"action_accuracy": 0.25, "log_likelihood": -1.5},
    }
    put(folder, "held_out.json", {**predicted, "decisions": 1_000, "forced": 24})
    text = page.write(folder).read_text(encoding="utf-8")
    assert "<h2>Held-out episodes</h2>" in text
    assert "scored on 1,000 decisions (agent-steps with a choice) of 40 held-out episodes" in text
    put(folder, "held_out.json", predicted)  # as version 0.1.0 wrote it
    for name in ("eval.json", "summary.json", "replay.npz"):
        (folder / name).unlink()
    text = page.write(folder).read_text(encoding="utf-8")
    assert '<span class="metric">action accuracy</span> <span class="value">0.75</span>' in text
    assert "[0.50, 1.00]" in text
    assert "marginal-action baseline reaches 0.25" in text
    assert "scored on all steps, forced ones too, of 40 held-out episodes" in text
    assert "no better than" not in text
    assert "logged episodes of tmaze/expert that were learned from" in text
    assert "<td>-1.500</td>" in text.replace("\u2212", "-")
    for title in ("Replay", "Learning curve", "Results"):
        assert f"<h2>{title}</h2>" not in text
    put(
        folder,
        "held_out.json",
        {**predicted, "baseline": {**predicted["baseline"], "action_accuracy": 0.75}},
    )
    text = page.write(folder).read_text(encoding="utf-8")
    assert "The policy is no better than the marginal-action baseline" in text
    assert "trust.json" not in text
    (folder / "trust.json").write_text('{"verdict": "worse"}')
    text = page.write(folder).read_text(encoding="utf-8")
    assert "trust.json of this run cannot be read" in text
    (folder / "trust.json").unlink()
    put(folder, "held_out.json", {**predicted, "action_accuracy": None})
    with pytest.raises(OryxError, match=r"held_out\.json is damaged"):
        page.write(folder)
