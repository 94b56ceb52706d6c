from collections import Counter

import pytest

from oryx_marl.bench import published, table
from oryx_marl.errors import OryxError


def test_every_row_is_read() -> None:
    files = {path.stem for path in published.TABLES.glob("*.csv")}
    counts = {name: len(published.read(name)) for name in files}
    assert counts == {
        "benchmark": 543,
        "tmaze": 12,
        "mat_vs_oryx": 16,
        "connector_datasets": 7,
        "settings": 11,
    }
    assert len(published.scores()) == 543 + 12
    assert len(published.aggregates()) == 16
    assert len(published.datasets()) == 84 + 7


def test_oryx_on_the_benchmark() -> None:
    """As the paper counts: 34 of 43 in SMAC, 14 of 16 in MAMuJoCo, all 6 in RWARE."""
    counts = {}
    for environment in ("smac_v1", "mamujoco", "rware"):
        found = published.scores(environment, algorithm="Oryx")
        counts[environment] = (sum(s.best or s.not_significantly_worse for s in found), len(found))
    assert counts == {"smac_v1": (34, 43), "mamujoco": (14, 16), "rware": (6, 6)}


def test_the_best_have_the_highest_mean() -> None:
    tasks: dict[tuple[str | None, ...], list[published.Score]] = {}
    for score in published.scores():
        tasks.setdefault((score.source, score.scenario, score.dataset), []).append(score)
    for task, scores in tasks.items():
        highest = max(score.mean for score in scores)
        marked = [score for score in scores if score.best]
        assert all(score.mean == highest for score in marked), task
        assert marked or task[0] is None, task
    assert not any(score.best and score.not_significantly_worse for score in published.scores())


def test_known_scores() -> None:
    [replay] = published.scores("tmaze", "replay", "Oryx")
    [expert] = published.scores("tmaze", "expert", "Oryx")
    assert (replay.mean, replay.std, expert.mean, expert.std) == (0.99, 0.01, 0.94, 0.03)
    assert (replay.best, replay.metric, replay.source, replay.scenario) == (None,) * 4
    [corridor] = published.scores("smac_v1", "Good", "Oryx", scenario="corridor")
    assert corridor == published.Score(
        environment="smac_v1",
        dataset="Good",
        algorithm="Oryx",
        mean=96.6,
        std=3.0,
        scenario="corridor",
        source="omiga",
        metric="win_rate_percent",
        best=True,
        not_significantly_worse=False,
    )


def test_one_task_from_two_sources() -> None:
    found = published.scores("smac_v1", "good", "oryx", scenario="5m_vs_6m")
    assert [(score.source, score.metric) for score in found] == [
        ("omiga", "win_rate_percent"),
        ("og_marl", "episode_return"),
    ]
    assert len(published.scores(source="omiga", scenario="5m_vs_6m", dataset="Good")) == 10


def test_known_aggregates() -> None:
    found = {(a.environment, a.metric, a.algorithm): a for a in published.aggregates()}
    assert len(found) == 16
    iqm = found["smac_v1", "iqm", "Oryx"]
    assert (iqm.value, iqm.low, iqm.high) == (0.87, 0.86, 0.88)
    assert all(a.low <= a.value <= a.high for a in found.values())


def test_known_datasets() -> None:
    [good] = published.datasets("smac_v1", "Good", "2c_vs_64zg", "omiga")
    assert (good.transitions, good.episodes, good.max_return) == (59215, 1001, 21.6106)
    assert (good.num_agents, good.observation_size) == (2, 478)
    assert (good.actions_shape, good.legals_shape, good.state_shape) == ((2,), (2, 70), (1350,))
    assert good.other_infos is None
    assert good.has_truncations
    [ant] = published.datasets("mamujoco", "Expert", "2ant")
    assert (ant.legals_shape, ant.actions_shape) == (None, (2, 4))
    [connector] = published.datasets("connector", scenario="con-5x5x3a")
    assert (connector.transitions, connector.mean_return, connector.min_return) == (
        1_170_000,
        0.59,
        -0.75,
    )
    assert (connector.dataset, connector.episodes, connector.std_return) == (None, None, None)
    assert Counter(d.environment for d in published.datasets()) == {
        "smac_v1": 43,
        "mamujoco": 19,
        "mpe": 12,
        "connector": 7,
        "rware": 6,
        "smac_v2": 4,
    }


def test_returns_lie_within_their_bounds() -> None:
    for found in published.datasets():
        assert found.min_return <= found.mean_return <= found.max_return, found


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(OryxError) as error:
        published.scores("chess")
    assert str(error.value) == (
        "there is no published score with environment 'chess'; "
        "there is: mamujoco, rware, smac_v1, tmaze"
    )
    with pytest.raises(OryxError) as error:
        published.scores("tmaze", "Good")
    assert str(error.value) == (
        "there is no published score with dataset 'Good' for environment 'tmaze'; "
        "there is: expert, replay"
    )
    with pytest.raises(OryxError, match=r"published dataset with dataset 'Good' .*: none"):
        published.datasets("connector", "Good")


def test_scores_as_a_table() -> None:
    found = [s for s in published.scores("tmaze") if s.algorithm in ("MAICQ", "Oryx")]
    assert table.markdown(published.as_table(found)) == (
        "| environment | dataset | MAICQ | Oryx |\n"
        "| --- | --- | ---: | ---: |\n"
        "| tmaze | replay | 0.00 ± 0.00 | 0.99 ± 0.01 |\n"
        "| tmaze | expert | 0.00 ± 0.00 | 0.94 ± 0.03 |\n"
    )
    found = published.scores(source="omiga", scenario="5m_vs_6m", dataset="Poor")
    assert table.plain(published.as_table(found[-5::2]), "what they are") == (
        "environment  source  scenario  dataset  metric            "
        "     OMIGA    AlberDICE         Oryx\n"
        "smac_v1      omiga   5m_vs_6m  Poor     win_rate_percent  "
        "[6.9 ± 1.2]   0.0 ± 0.0    6.8 ± 4.4*\n"
        "\n"
        "what they are\n"
    )


def test_the_whole_benchmark_as_a_table() -> None:
    found = published.as_table(published.scores())
    assert len(found.rows) == 65 + 2
    assert sum(cell is not None for row in found.rows for cell in row.cells) == 543 + 12
    assert len(table.csv(found).splitlines()) == 1 + 67
