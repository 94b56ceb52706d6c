"""Long tables: what columns mean, how rows become steps, and what is refused."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.sources.table import Options
from oryx_marl.errors import OryxError, OryxWarning

HEADER = "episode,step,agent,obs_0,obs_1,action,reward,terminal\n"


def read(path: Path, options: Options | None = None) -> Dataset:
    """The whole dataset, by way of a vault."""
    count = len(list(path.parent.iterdir()))
    return vault.read(vault.write_parts(base.read(path, "a/b", options), path.parent / f"v{count}"))


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "log.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_csv_by_hand(write) -> None:
    """Rows in any order within an episode; agents by number; b leaves after its end."""
    path = write(
        HEADER + "x,1,agent_10,3,4,1,0.5,0\n"
        "x,0,agent_10,1,2,0,0.5,0\n"
        "x,0,agent_9,5,,2,0.25,1\n"
        "y,7,agent_9,6,,0,1,1\n"
        "y,7,agent_10,7,8,1,1,1\n"
    )
    dataset = read(path)
    assert dataset.spec.agents == ("agent_9", "agent_10")
    assert dataset.spec.observation_sizes == (1, 2)
    assert dataset.spec.action.size == 3
    assert not dataset.spec.shared_reward
    assert dataset.episode_starts.tolist() == [0, 2]
    assert dataset.observations.dtype == np.float32
    assert dataset.observations.tolist() == [
        [[5, 0], [1, 2]],
        [[0, 0], [3, 4]],
        [[6, 0], [7, 8]],
    ]
    assert dataset.actions.tolist() == [[2, 0], [0, 1], [0, 1]]
    assert dataset.rewards.tolist() == [[0.25, 0.5], [0, 0.5], [1, 1]]
    assert dataset.agent_mask is not None
    assert dataset.agent_mask.tolist() == [[True, True], [False, True], [True, True]]
    assert dataset.terminals.tolist() == [[True, False], [False, False], [True, True]]
    # Nothing said why the first episode ends, so the recording did.
    assert dataset.truncations.tolist() == [[False, False], [True, True], [False, False]]
    assert dataset.final_observations is None


def test_who_is_not_there_ends_with_the_last(write) -> None:
    rows = "1,0,a,1,1,0,0,1\n1,1,b,1,1,0,0,0\n1,2,b,1,1,0,0,1\n"
    dataset = read(write(HEADER + rows))
    assert dataset.terminals.tolist() == [[True, False], [False, False], [True, True]]
    assert not dataset.truncations.any()


def test_names_by_flags_and_by_toml(write, tmp_path: Path) -> None:
    path = write(
        "shift;minute;truck;far;load;order;pay\n"
        "1;2024-05-01 08:00:00;A;1.5;0;wait;1\n1;2024-05-01 08:00:00;B;2;1;drive;1\n"
        "1;2024-05-01 08:05:00;A;1;0;drive;2\n1;2024-05-01 08:05:00;B;0;1;wait;2\n"
    )
    told = Options(
        episode="shift",
        step="minute",
        agent="truck",
        observation=("far", "load"),
        action=("order",),
        reward="pay",
        agents=("B", "A"),
        action_names=("wait", "drive", "rest"),
    )
    dataset = read(path, told)
    assert dataset.spec.agents == ("B", "A")
    assert dataset.spec.action.size == 3
    assert dataset.spec.shared_reward
    assert dataset.actions.tolist() == [[1, 0], [0, 1]]
    assert dataset.observations[0].tolist() == [[2, 1], [1.5, 0]]
    assert dataset.origin["action_names"] == ["wait", "drive", "rest"]
    toml = tmp_path / "mapping.toml"
    toml.write_text(
        'episode = "shift"\nstep = "minute"\nagent = "truck"\nobservation = ["far", "load"]\n'
        'action = "order"\nreward = "pay"\nagents = ["B", "A"]\n'
        'action_names = ["wait", "drive", "rest"]\n'
    )
    assert base.read_options("table", toml) == told
    with pytest.raises(OryxError, match=r"kind 'table' takes no speed; it takes: .*reward"):
        base.make_options("table", {"speed": "x"})
    with pytest.raises(OryxError, match="agents = 3 is not understood"):
        base.make_options("table", {"agents": 3})


@pytest.mark.parametrize("cell", ["[1, 0.5]", "1 0.5", "1;0.5", "(1,0.5)"])
def test_lists_in_the_cells_of_a_csv(write, cell: str) -> None:
    path = write(f'ep,t,agent,obs,action,reward,legal\n1,0,a,"{cell}","{cell}",1,\n')
    with pytest.raises(OryxError, match="action_mask"):
        read(path, Options(action_mask=("legals",)))
    dataset = read(path, Options(action_mask=("legal",)))
    assert dataset.observations.tolist() == [[[1, 0.5]]]
    assert dataset.spec.action.kind == "box"
    assert dataset.actions.tolist() == [[[1, 0.5]]]


def test_a_last_row_without_an_action_is_what_was_seen_after_the_end(write) -> None:
    rows = "1,0,a,1,2,0,1,0\n1,1,a,3,4,1,1,1\n1,2,a,5,6,,,\n"
    dataset = read(write(HEADER + rows))
    assert dataset.num_rows == 2
    assert dataset.final_observations is not None
    assert dataset.final_observations.tolist() == [[[5, 6]]]
    both = read(write(HEADER + rows + "2,0,a,1,2,0,1,1\n", "both.csv"))
    assert both.final_observations is None  # not every episode has them
    assert both.num_rows == 3


def test_masks_state_and_truncation(write) -> None:
    dataset = read(
        write(
            "episode,step,agent,obs_0,action,reward,done,timeout,legal_a,legal_b,state_0,state_1\n"
            "1,0,a,1,0,1,no,no,yes,no,7,8\n1,0,b,1,1,1,no,no,1,true,,\n"
            "1,1,a,1,0,1,no,yes,1,0,9,9\n1,1,b,1,1,1,no,yes,1,1,9,9\n"
        )
    )
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, False], [True, True]]] * 2
    assert dataset.state is not None
    assert dataset.state.tolist() == [[7, 8], [9, 9]]
    assert dataset.truncations.tolist() == [[False, False], [True, True]]
    assert not dataset.terminals.any()


@pytest.mark.parametrize(
    ("cells", "kind", "size"),
    [
        ("0 3", "discrete", 4),
        ("0.0 2.0", "discrete", 3),
        ("0.5 2.0", "box", 1),
        ("go -1", "discrete", 2),
    ],
)
def test_what_kind_of_action(write, cells: str, kind: str, size: int) -> None:
    first, second = cells.split()
    dataset = read(write(HEADER + f"1,0,a,1,1,{first},0,0\n1,1,a,1,1,{second},0,1\n"))
    assert (dataset.spec.action.kind, dataset.spec.action.size) == (kind, size)


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "episode": pa.array([1, 1, 2]),
            "step": pa.array([0, 1, 0], pa.timestamp("ns")),
            "agent": pa.array(["a", "a", "a"]).dictionary_encode(),
            "obs": pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)),
            "action": pa.array([0, 1, 0], pa.uint8()),
            "reward": pa.array([1.0, 2.0, 3.0], pa.float64()),
            "action_mask": pa.array([[True, False]] * 3, pa.large_list(pa.bool_())),
        }
    )
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    dataset = read(tmp_path / "log.parquet")
    types = {name: array.dtype.name for name, array in dataset.arrays().items()}
    assert types["observations"] == "int8"
    assert (types["actions"], types["rewards"]) == ("uint8", "float64")
    assert dataset.action_mask is not None
    assert dataset.action_mask[:, 0].tolist() == [[True, False]] * 3
    assert dataset.episode_starts.tolist() == [0, 2]


def test_rows_that_do_not_stand_together(write) -> None:
    mixed = HEADER + "1,0,a,1,1,0,0,0\n2,0,a,2,2,0,0,1\n1,1,a,3,3,1,0,1\n"
    with pytest.raises(OryxError, match=r"rows of episode 1 do not stand together.*--sort"):
        read(write(mixed))
    dataset = read(write(mixed), Options(sort=True))
    assert dataset.observations[:, 0, 0].tolist() == [1, 3, 2]


FAULTS = {
    "twice": ("1,0,a,1,1,0,0,0\n1,0,a,1,1,0,0,0\n", r"row 2 \(episode 1, step 0 of it, agent a\)"),
    "no action": ("1,0,a,1,1,,0,0\n1,1,a,1,1,0,0,1\n", r"row 1 .* has no action"),
    "no reward": ("1,0,a,1,1,0,,0\n1,1,a,1,1,0,0,1\n", r"row 1 .* has no reward"),
    "only an end": ("1,0,a,1,1,,,\n", "episode 1 has no step with an action"),
    "no episode": (",0,a,1,1,0,0,0\n", "episode has an empty cell"),
    "no agent": ("1,0,,1,1,0,0,0\n", "agent has an empty cell"),
    "no step": ("1,,a,1,1,0,0,0\n", "column step has"),
    "word for a number": ("1,0,a,x,1,0,0,0\n", "obs_0|invalid value 'x'"),
    "odd flag": ("1,0,a,1,1,0,0,perhaps\n", "terminal has 'perhaps'"),
    "ragged": ("1,0,a,1\n", "Expected 8 columns, got 4"),
    "no row": ("", "no row|[Ee]mpty"),
    "huge id": ("1,0,a,1,1,2000000,0,1\n", "largest action is 2,000,000"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(write, fault: str) -> None:
    rows, message = FAULTS[fault]
    with pytest.raises(OryxError, match=message) as caught:
        read(write(HEADER + rows))
    assert "log.csv" in str(caught.value)


def test_unknown_columns_are_asked_for(write) -> None:
    with pytest.raises(
        OryxError, match=r"no column is known as the reward.*--reward COLUMN.*price"
    ):
        read(write("episode,step,agent,obs_0,action,price\n1,0,a,1,0,3\n"))
    with pytest.raises(OryxError, match="there is no column prize for the reward"):
        read(write("episode,step,agent,obs_0,action,price\n"), Options(reward="prize"))
    with pytest.raises(OryxError, match="terminal and done could both be the terminal"):
        read(write("episode,step,agent,obs_0,action,reward,done,terminal\n"))
    with pytest.raises(OryxError, match="price is taken for both observation and reward"):
        read(
            write("episode,step,agent,action,price\n1,0,a,1,0\n"),
            Options(observation=("price",), reward="price"),
        )


def test_without_a_column_of_agents_there_is_one(write) -> None:
    header = "episode,step,obs_0,action,reward\n"
    dataset = read(write(header + "1,0,1,0,3\n1,1,2,1,4\n"))
    assert dataset.spec.agents == ("agent_0",)
    assert dataset.observations.tolist() == [[[1]], [[2]]]
    assert dataset.rewards.tolist() == [[3], [4]]
    assert "agent" not in dataset.origin["columns"]
    named = read(write(header + "1,0,1,0,3\n"), Options(agents=("drone",)))
    assert named.spec.agents == ("drone",)
    with pytest.raises(OryxError, match=r"row 2 .*no column is known as the agent.*--agent COLUMN"):
        read(write(header + "1,0,1,0,3\n1,0,2,1,4\n"))
    with pytest.raises(OryxError, match=r"--agents names 2 agents.*--agent COLUMN, or --kind wide"):
        read(write(header + "1,0,1,0,3\n"), Options(agents=("a", "b")))


@pytest.mark.parametrize("mask", ["action_mask", "legal", "avail_actions"])
@pytest.mark.parametrize("here", ["agent_mask", "present"])
def test_masks_by_their_new_and_old_names(write, mask: str, here: str) -> None:
    header = f"episode,step,agent,obs_0,action,reward,{mask},{here}\n"
    dataset = read(write(header + "1,0,a,1,0,1,1 0,1\n"))
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, False]]]
    assert dataset.agent_mask is not None
    with pytest.warns(OryxWarning, match="legal is now called action_mask"):
        told = base.make_options("table", {"legal": mask})
    assert told == Options(action_mask=(mask,))


def test_lists_of_the_wrong_length(tmp_path: Path) -> None:
    columns = {
        "episode": [1, 1],
        "step": [0, 1],
        "agent": ["a", "a"],
        "obs": [[1.0, 2.0], [1.0]],
        "action": [0, 1],
        "reward": [0.0, 0.0],
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(OryxError, match=r"row 2 .* has 1 features, but elsewhere this agent has 2"):
        read(tmp_path / "log.parquet")


LENGTH, AGENTS = 20, 2


@pytest.fixture
def write_long(tmp_path: Path, monkeypatch):
    """Writes a table of so many episodes, which is read in blocks of 2,000 bytes."""
    for module in ("_csv", "_parquet", "_json_lines"):
        monkeypatch.setattr(f"oryx_marl.data.sources.{module}.BLOCK_BYTES", 2_000)

    def write_long(suffix: str, episodes: int) -> Path:
        rows = episodes * LENGTH * AGENTS
        order = np.arange(rows)
        columns = {
            "episode": order // (LENGTH * AGENTS),
            "step": order // AGENTS % LENGTH,
            "agent": order % AGENTS,
            "obs_0": order.astype(np.float32),
            "obs_1": np.zeros(rows, np.float32),
            "action": order % 3,
            "reward": np.ones(rows, np.float32),
        }
        path, table = tmp_path / f"log-{episodes}.{suffix}", pa.table(columns)
        if suffix == "csv":
            pa.csv.write_csv(table, path)
        else:
            pa.parquet.write_table(table, path, row_group_size=500)
        return path

    return write_long


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_read_in_blocks(write_long, suffix: str) -> None:
    """Parts are small however large the table is, and end with an episode."""
    parts = list(base.read(write_long(suffix, 60), "a/b"))
    assert len(parts) >= 10
    assert max(part.num_rows for part in parts) <= 8 * LENGTH
    assert sum(part.num_episodes for part in parts) == 60
    whole = np.concatenate([part.observations[..., 0] for part in parts])
    np.testing.assert_array_equal(whole, np.arange(60 * LENGTH * AGENTS).reshape(-1, AGENTS))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_table(write_long, suffix: str) -> None:
    def most_held(episodes: int) -> int:
        path, before = write_long(suffix, episodes), pa.total_allocated_bytes()
        return max(pa.total_allocated_bytes() - before for _ in base.read(path, "a/b"))

    assert most_held(800) < 1.5 * most_held(100)


def test_a_missing_package_is_named(write, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    with pytest.raises(OryxError, match=r"needs the package pyarrow.*pip install .*\[sources\]"):
        read(write(HEADER))


def test_texts_and_lists_as_other_programs_write_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "episode": pa.array(["x", "x"], pa.large_string()),
            "step": [0, 1],
            "agent": pa.array(["a", "a"], pa.string_view()),
            "obs": pa.array([[1.0], [2.0]], pa.large_list(pa.float64())),
            "action": pa.array(["go", "stay"], pa.large_string()),
            "reward": [1, 2],
        }
    )
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    dataset = read(tmp_path / "log.parquet")
    assert dataset.actions.tolist() == [[0], [1]]
    assert dataset.observations.tolist() == [[[1.0]], [[2.0]]]


def test_a_wrong_column_does_not_fill_the_memory(write) -> None:
    rows = "".join(f"1,{row},agent-{row},1,1,0,0,0\n" for row in range(3_000))
    with pytest.raises(OryxError, match="3,000 agents, but hardly any of them in a step"):
        read(write(HEADER + rows))
    rows = "".join(f"1,{row},agent-{row},1,1,0,0,0\n" for row in range(10_001))
    with pytest.raises(OryxError, match="more than 10,000 agents"):
        read(write(HEADER + rows))


def test_the_clock_can_be_told_for_tables_too(write) -> None:
    rows = "1,0,a,1,1,0,0,0\n1,1,a,1,1,0,0,1\n2,0,a,1,1,0,0,1\n"
    dataset = read(write(HEADER + rows), Options(time_limit=2))
    assert dataset.terminals[:, 0].tolist() == [False, False, True]
    assert dataset.truncations[:, 0].tolist() == [False, True, False]


def test_rewards_of_absent_agents_do_not_count_as_their_own(write) -> None:
    header = HEADER.replace("terminal", "agent_mask")
    rows = "1,0,a,1,1,0,3,1\n1,0,b,1,1,0,0,0\n1,1,a,1,1,0,2,1\n1,1,b,1,1,0,2,1\n"
    assert read(write(header + rows)).spec.shared_reward


def test_what_is_told_goes_before_what_is_usual(write) -> None:
    """A feature called state_of_charge is not the global state, nor a mask an action."""
    path = write(
        "episode,step,agent,state_of_charge,action_x,action_y,action_mask_0,action_mask_1,reward\n"
        "1,0,a,0.5,1.5,2.5,1,0,1\n"
    )
    dataset = read(path, Options(observation=("state_of_charge",)))
    assert dataset.state is None
    assert dataset.observations.tolist() == [[[0.5]]]
    assert dataset.actions.tolist() == [[[1.5, 2.5]]]


def test_a_compressed_csv(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "log.csv.gz", "wt") as file:
        file.write(HEADER + "1,0,a,1,2,0,1,1\n")
    assert read(tmp_path / "log.csv.gz").observations.tolist() == [[[1, 2]]]


MASKED = "episode,step,agent,obs_0,action,reward,{}\n1,0,a,1,right,0,{}\n1,1,a,1,left,1,{}\n"


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("action_mask_right,action_mask_left", "1,0"),
        ("legal.left,legal.right", "0,1"),
        ("legal_turn_right,legal_turn_left", "1,0"),
    ],
)
def test_columns_of_a_mask_are_matched_by_word(write, names: str, first: str) -> None:
    """Ids go by alphabet, left 0 and right 1, in whatever order the columns stand."""
    dataset = read(write(MASKED.format(names, first, "1,1")))
    assert dataset.actions.tolist() == [[1], [0]]
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[False, True]], [[True, True]]]


def test_columns_of_a_mask_are_matched_by_the_names_that_are_told(write) -> None:
    path = write(MASKED.format("legal_left,legal_stay,legal_right", "0,1,1", "1,0,0"))
    dataset = read(path, Options(action_names=("stay", "right", "left")))
    assert dataset.actions.tolist() == [[1], [2]]
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, True, False]], [[False, False, True]]]


def test_an_action_that_nobody_took_has_its_column_all_the_same(write) -> None:
    dataset = read(write(MASKED.format("legal_left,legal_brake,legal_right", "0,1,1", "1,0,0")))
    assert dataset.origin["action_names"] == ["brake", "left", "right"]
    assert dataset.actions.tolist() == [[2], [1]]
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, False, True]], [[False, True, False]]]


def test_numbered_columns_of_a_mask_go_by_their_numbers(write) -> None:
    dataset = read(write(MASKED.format("legal_10,legal_9", "1,0", "1,1")))
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[False, True]], [[True, True]]]


@pytest.mark.parametrize(
    ("names", "told", "message"),
    [
        ("legal_left,legal_rigth", (), r"no column for right and columns for rigth, which are no"),
        ("legal_l,legal_r", (), r"no column for left, right .*legal_left"),
        ("legal_left,legal_right", ("left", "right", "up"), "no column for up; the actions are"),
    ],
)
def test_columns_of_a_mask_with_other_words_are_refused(
    write, names: str, told: tuple[str, ...], message: str
) -> None:
    with pytest.raises(OryxError, match=message):
        read(write(MASKED.format(names, "1,1", "1,1")), Options(action_names=told))


def test_columns_and_names_that_are_told_in_one_order_fit(write) -> None:
    told = Options(action_names=("right", "left"), action_mask=("r_ok", "l_ok"))
    dataset = read(write(MASKED.format("l_ok,r_ok", "0,1", "1,1")), told)
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, False]], [[True, True]]]


def test_a_mask_of_words_says_what_is_expected(tmp_path: Path) -> None:
    table = {"episode": [1, 1], "step": [0, 1], "obs": [[1.0]] * 2, "reward": [0.0, 1.0]}
    table |= {"action": ["left", "right"]}
    for cells in ([["left"], ["left", "right"]], ["left", "left right"]):
        path = tmp_path / "log.parquet"
        pyarrow.parquet.write_table(pa.table(table | {"action_mask": cells}), path)
        with pytest.raises(OryxError, match=r"0 or 1 for each action, in the order of their ids"):
            read(path)


@pytest.mark.parametrize(
    ("logged", "bounds"),
    [((-0.5, 0.25), (-1, 1)), ((0.25, 2.5), (0.25, 2.5)), ((-3.5, 0.5), (-3.5, 0.5))],
)
def test_bounds_of_actions_are_the_usual_ones_or_those_of_the_log(
    logged: tuple[float, float], bounds: tuple[float, float], tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    rows = [f"0,{step},a,0.1,{action},0,{step}" for step, action in enumerate(logged)]
    path.write_text("\n".join(["episode,step,agent,obs_0,action,reward,done", *rows]))
    found = next(iter(base.read(path, "a/b"))).spec.action
    assert (found.low[0], found.high[0]) == bounds
