"""Wide tables: columns of each agent's own become the rows of a long table."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from generated import assert_same_data

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.sources.wide import Options
from oryx_marl.errors import OryxError

HEADER = "episode,step,red_x,red_y,blue_x,red_action,blue_action,reward,done\n"
ROWS = "1,0,1,2,3,0,1,5,0\n1,1,4,5,6,1,0,6,1\n2,0,7,8,,0,,7,1\n"
TOLD = Options(agents=("red", "blue"), observation=("{agent}_x", "{agent}_y"))


def read(path: Path, options: Options) -> Dataset:
    count = len(list(path.parent.iterdir()))
    parts = base.read(path, "a/b", options, "wide")
    return vault.read(vault.write_parts(parts, path.parent / f"v{count}"))


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "log.csv") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_csv_by_hand(write) -> None:
    """Blue sees one feature, shares reward and end, and is absent where its cells are empty."""
    dataset = read(write(HEADER + ROWS), TOLD)
    assert dataset.spec.agents == ("red", "blue")
    assert dataset.spec.observation_sizes == (2, 1)
    assert dataset.spec.shared_reward
    assert dataset.observations.tolist() == [[[1, 2], [3, 0]], [[4, 5], [6, 0]], [[7, 8], [0, 0]]]
    assert dataset.actions.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert dataset.rewards.tolist() == [[5, 5], [6, 6], [7, 0]]
    assert dataset.agent_mask is not None
    assert dataset.agent_mask.tolist() == [[True, True], [True, True], [True, False]]
    assert dataset.terminals.tolist() == [[False, False], [True, True], [True, True]]
    assert dataset.episode_starts.tolist() == [0, 2]
    assert dataset.origin["kind"] == "wide"
    assert dataset.origin["options"]["observation"] == ["{agent}_x", "{agent}_y"]


def test_it_is_the_long_table_written_otherwise(write) -> None:
    """Numbers as names of agents, masks and words for actions, and what was seen at the end."""
    wide = write(
        "ep,t,obs_0_x,obs_0_y,obs_1_x,obs_1_y,action_0,action_1,reward_0,reward_1,"
        "action_mask_0,action_mask_1,state_0,state_1\n"
        "a,0,1,2,3,4,go,stay,1,2,1 1,0 1,7,8\na,1,5,6,7,8,stay,go,3,4,0 1,1 0,9,9\n"
        "a,2,1,1,2,2,,,,,,,,\n"
    )
    long = write(
        "ep,t,agent,obs_x,obs_y,action,reward,action_mask,state_0,state_1\n"
        "a,0,0,1,2,go,1,1 1,7,8\na,0,1,3,4,stay,2,0 1,7,8\n"
        "a,1,0,5,6,stay,3,0 1,9,9\na,1,1,7,8,go,4,1 0,9,9\n"
        "a,2,0,1,1,,,,,\na,2,1,2,2,,,,,\n",
        "long.csv",
    )
    # With agents called 0 and 1, state_0 might be the first agent's: it is told.
    told = Options(agents=("0", "1"), state=("state",))
    found = read(wide, told)
    expected = vault.read(vault.write_parts(base.read(long, "a/b"), long.parent / "expected"))
    assert found.final_observations is not None
    assert found.action_mask is not None
    assert_same_data(found, expected)


def test_agents_are_found_by_the_pattern_of_their_actions(write) -> None:
    """Of red_2 nothing is red's."""
    path = write(
        "episode,step,obs_red_x,obs_red_2_x,do_red,do_red_2,do_red_10,obs_red_10_x,reward\n"
        "1,0,1,2,0,1,2,3,4\n"
    )
    dataset = read(path, Options(action=("do_{agent}",)))
    assert dataset.spec.agents == ("red", "red_2", "red_10")
    assert dataset.observations.tolist() == [[[1], [2], [3]]]
    assert dataset.actions.tolist() == [[0, 1, 2]]


def test_parquet_and_nested_json(tmp_path: Path) -> None:
    columns = {
        "episode": [0, 0],
        "step": [0, 1],
        "obs_a": [[1.0, 2.0], [3.0, 4.0]],
        "obs_b": [[5.0], [6.0]],
        "action_a": [[0.5, 0.5]] * 2,
        "action_b": [[0.25, 1.0]] * 2,
        "reward_a": [1.0, 2.0],
        "reward_b": [3.0, 4.0],
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    told = Options(agents=("a", "b"))
    dataset = read(tmp_path / "log.parquet", told)
    assert dataset.spec.observation_sizes == (2, 1)
    assert dataset.spec.action.kind == "box"
    assert dataset.rewards.tolist() == [[1, 3], [2, 4]]
    rows = [
        {
            "episode": 0,
            "step": step,
            **{
                short: {who: columns[f"{short}_{who}"][step] for who in "ab"}
                for short in ("obs", "action", "reward")
            },
        }
        for step in range(2)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    again = read(tmp_path / "log.jsonl", told)
    for name in ("observations", "actions", "rewards"):
        np.testing.assert_array_equal(again.arrays()[name], dataset.arrays()[name])


def test_parts_are_small_and_whole_episodes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("oryx_marl.data.sources._csv.BLOCK_BYTES", 500)
    rows = "".join(f"{i // 5},{i % 5},{i},{-i},1,0,1,1,0\n" for i in range(300))
    (tmp_path / "log.csv").write_text(HEADER + rows)
    parts = list(base.read(tmp_path / "log.csv", "a/b", TOLD, "wide"))
    assert len(parts) > 5
    assert sum(part.num_episodes for part in parts) == 60
    whole = np.concatenate([part.observations[:, 0, 0] for part in parts])
    np.testing.assert_array_equal(whole, np.arange(300))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(), r"say who the agents are: --agents red blue.*the columns are: episode, step"),
        (Options(agents=("red", "green")), "agent green has no column for the action"),
        (Options(action=("{agent}_do",)), r"no column fits \{agent\}_do; the columns are"),
        (Options(agents=("red", "blue")), r"no column is known as the observation.*--observation"),
        (
            Options(agents=("red", "blue"), observation=("{agent}_z",)),
            r"no column fits \{agent\}_z for the observation; the agents are red, blue",
        ),
        (
            Options(agents=("red", "blue"), observation=("{agent}_x",), action=("red_action",)),
            "share the action in red_action",
        ),
        (
            Options(agents=("red", "blue"), observation=("{agent}_x",), episode="{agent}_y"),
            "agent blue has no column for the episode",
        ),
    ],
)
def test_what_is_wrong_is_said(write, options: Options, message: str) -> None:
    with pytest.raises(OryxError, match=message):
        read(write(HEADER + ROWS), options)


def test_places_are_those_of_the_file(write) -> None:
    broken = ROWS.replace("1,1,4,5,6,1,0,6,1", "1,1,4,5,6,1,,6,1")
    with pytest.raises(OryxError, match=r"row 2 \(.*agent blue\) has no action"):
        read(write(HEADER + broken), TOLD)


def test_a_long_table_is_told_of_wide_ones(write) -> None:
    path = write(HEADER + ROWS)
    with pytest.raises(OryxError, match=r"no column is known as the observation.*--kind wide"):
        list(base.read(path, "a/b"))
    with pytest.raises(OryxError, match=r"\{agent\}_x names a column for each agent.*--kind wide"):
        list(base.read(path, "a/b", base.make_options("table", {"observation": "{agent}_x"})))


def test_columns_of_a_mask_are_matched_by_word(write) -> None:
    """In whatever order each agent has them; an action without a column is none of the agent's."""
    path = write(
        "episode,step,obs_red,obs_blue,action_red,action_blue,reward,"
        "legal_red_stay,legal_red_left,legal_red_right,legal_blue_right,legal_blue_left\n"
        "1,0,1,2,right,left,0,0,0,1,0,1\n1,1,1,2,stay,right,1,1,1,0,1,1\n"
    )
    dataset = read(path, Options(agents=("red", "blue")))
    assert dataset.origin["action_names"] == ["left", "right", "stay"]
    assert dataset.actions.tolist() == [[1, 0], [2, 1]]
    assert dataset.action_mask is not None
    assert dataset.action_mask.astype(int).tolist() == [
        [[0, 1, 0], [1, 0, 0]],
        [[1, 0, 1], [1, 1, 0]],
    ]


def test_a_missing_episode_or_step_is_to_be_added(write) -> None:
    """--kind wide is said already, so it is no advice."""
    for header, what in (
        ("step,red_x,red_action,reward\n0,1,0,1\n", r"the episode.*df\['episode'\] = 0"),
        ("episode,red_x,red_action,reward\n0,1,0,1\n", r"groupby\(\['episode'\]\).cumcount"),
    ):
        with pytest.raises(OryxError, match=what) as caught:
            read(write(header), Options(agents=("red",), observation=("{agent}_x",)))
        assert "--kind wide" not in str(caught.value)
    long = write("episode,agent,obs,action,reward\n0,a,1,0,1\n")
    with pytest.raises(OryxError, match=r"groupby\(\['episode', 'agent'\]\).cumcount"):
        list(base.read(long, "a/b"))


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_words_in_several_columns_of_actions_are_told_of_wide_tables(tmp_path, name: str) -> None:
    table = pa.table(
        {"episode": [1, 1], "step": [0, 1], "obs": [1.0, 2.0], "reward": [0.0, 1.0]}
        | {"red_action": ["left", "right"], "blue_action": ["left", "left"]}
    )
    if name == "log.csv":
        pyarrow.csv.write_csv(table, tmp_path / name)
    else:
        pyarrow.parquet.write_table(table, tmp_path / name)
    told = base.make_options("table", {"action": ["red_action", "blue_action"]})
    with pytest.raises(OryxError, match=r"red_action, blue_action are words.*--kind wide"):
        list(base.read(tmp_path / name, "a/b", told))
