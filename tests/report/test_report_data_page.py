"""The page about datasets: shapes where they belong, text escaped, nothing loaded."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from oryx_marl.cli import main as cli
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.explore import explore
from oryx_marl.data.quality.validate import validate
from oryx_marl.report import charts, data_page
from oryx_marl.types import ActionSpace, Spec


def build(name: str, kind: str = "discrete", rewards: float = 1.0) -> Dataset:
    action = ActionSpace("box", 2, (-1.0,) * 2, (1.0,) * 2)
    rng = np.random.default_rng(0)
    ends = np.zeros((20, 2), bool)
    ends[4::5] = True
    taken = rng.integers(0, 3, (20, 2)).astype(np.int32)
    return Dataset(
        spec=Spec(
            "",
            ("<left>", "right"),
            (3, 3),
            ActionSpace("discrete", 3) if kind == "discrete" else action,
        ),
        observations=rng.normal(size=(20, 2, 3)).astype(np.float32),
        actions=taken if kind == "discrete" else rng.uniform(-1, 1, (20, 2, 2)),
        rewards=(rewards * np.arange(20)[:, None] * np.ones(2)).astype(np.float32),
        terminals=ends,
        truncations=np.zeros_like(ends),
        episode_starts=np.arange(0, 20, 5),
        name=name,
    )


def render(*datasets: Dataset) -> str:
    return data_page.render([(explore(d), validate(d)) for d in datasets])


class Balanced(HTMLParser):
    """Raises where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_a_page_is_whole_escaped_and_alone(kind: str) -> None:
    page = render(build("a/<b>", kind))
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "<b>b" not in page
    assert "a/&lt;b&gt;" in page
    assert "<left>" not in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "nan" not in page
    for title in ("Returns", "Size and coverage", "Episodes", "Actions", "Features", "Checks"):
        assert f"<h2>{title}</h2>" in page


def test_several_datasets_are_compared() -> None:
    page = render(build("one"), build("two", rewards=0.0))
    assert page.count('<path class="body"') == 2
    assert "<h2>Actions of two</h2>" in page
    assert "every reward is 0" in page
    assert '<li class="warning">' in page


def test_data_without_a_finite_return_or_finding_has_a_page() -> None:
    dataset = build("one")
    dataset.rewards[:] = np.nan
    page = render(dataset)
    assert "<h2>Returns</h2>" not in page
    assert "non-finite reward, 40 times" in page


def test_violins_are_as_wide_as_their_density() -> None:
    values, density = np.array([0.0, 5.0, 10.0]), np.array([1.0, 0.0, 0.5])
    chart = charts.violins({"one": (values, density), "two": (np.array([2.0]), np.array([1.0]))})
    one, two = re.findall(r'<path class="body" d="M([^"]*)Z"', chart)
    # Two places share the width of 1000: their middles are 250 and 750, half widths 200.
    assert one == "50 1000L250 500L150 0L350 0L250 500L450 1000"
    assert two == "550 800L950 800"
    assert ">one</span>" in chart


def test_ranges_are_drawn_from_low_to_high() -> None:
    nan = float("nan")
    low, high = np.array([0.0, nan, 5.0]), np.array([10.0, nan, 5.0])
    chart = charts.ranges(low, high, np.array([5.0, nan, 5.0]), "feature")
    bars = re.findall(r'<rect class="bar" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', chart)
    assert bars == [("33.3", "0", "266.7", "1000"), ("700", "500", "266.7", "2")]
    assert "0: 0 to 10, mean 5" in chart


def test_the_command_writes_a_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["data", "plot", "tmaze/planner-expert", "tmaze/planner-mixed"])
    assert "written to tmaze-planner-expert.html" in capsys.readouterr().out
    page = (tmp_path / "tmaze-planner-expert.html").read_text()
    assert "<h2>Features of tmaze/planner-mixed</h2>" in page
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "plot"])
    assert stop.value.code == 2
