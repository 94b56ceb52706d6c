"""A clean log, and faults that are planted in it, each with where it must be found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.subsample import take_episodes
from oryx_marl.types import ActionSpace, Spec

LENGTHS = np.array([9, 12, 7, 11, 8, 10, 13, 9, 14, 10, 6, 11])
STARTS = np.append(0, np.cumsum(LENGTHS)[:-1])
ROWS = int(LENGTHS.sum())
AGENTS = ("ada", "bo", "cy")


def build_clean(**changes: Any) -> Dataset:
    """Three agents, five features of which the first counts steps, four actions, a state."""
    rng = np.random.default_rng(7)
    observations = rng.normal(size=(ROWS, 3, 5)).astype(np.float32)
    steps = np.arange(ROWS) - np.repeat(STARTS, LENGTHS)
    observations[..., 0] = steps[:, None] / 20
    action_mask = rng.random((ROWS, 3, 4)) < 0.7
    actions = rng.integers(4, size=(ROWS, 3)).astype(np.int32)
    np.put_along_axis(action_mask, actions[..., None], True, axis=-1)
    ends = np.zeros((2, ROWS, 3), bool)
    last = STARTS + LENGTHS - 1
    ends[0, last[::2]] = ends[1, last[1::2]] = True
    values: dict[str, Any] = {
        "spec": Spec("", AGENTS, (5, 5, 5), ActionSpace("discrete", 4), state_size=3),
        "observations": observations,
        "actions": actions,
        "rewards": np.repeat(rng.normal(size=(ROWS, 1)), 3, axis=1).astype(np.float32),
        "terminals": ends[0],
        "truncations": ends[1],
        "episode_starts": STARTS,
        "action_mask": action_mask,
        "agent_mask": np.ones((ROWS, 3), bool),
        "state": rng.normal(size=(ROWS, 3)).astype(np.float32),
        "final_observations": rng.normal(size=(12, 3, 5)).astype(np.float32),
        "name": "planted",
    }
    return Dataset(**{**values, **changes})


def build_clean_box() -> Dataset:
    """The same with actions in a box."""
    spec = replace(build_clean().spec, action=ActionSpace("box", 2, (-1.0, -2.0), (1.0, 2.0)))
    actions = np.random.default_rng(8).uniform(-1, 1, (ROWS, 3, 2)).astype(np.float32)
    return build_clean(spec=spec, actions=actions, action_mask=None)


class Plant(NamedTuple):
    """A fault and the finding that must name it."""

    kind: str
    place: tuple[int | None, int | None, str | None, str | None]
    """Episode, step, agent, column."""
    says: str
    fault: Callable[[Dataset], Dataset | None]
    """Changes the arrays in place, or returns another dataset."""
    count: int = 1
    base: Callable[[], Dataset] = build_clean


def row(episode: int, step: int) -> int:
    return int(STARTS[episode]) + step


def put(name: str, where: Any, value: Any) -> Callable[[Dataset], None]:
    """Writes a value into an array."""

    def fault(dataset: Dataset) -> None:
        getattr(dataset, name)[where] = value

    return fault


def both(*faults: Callable[[Dataset], Dataset | None]) -> Callable[[Dataset], None]:
    def fault(dataset: Dataset) -> None:
        for one in faults:
            one(dataset)

    return fault


def copy_rows(names: tuple[str, ...], to: Any, source: Any) -> Callable[[Dataset], None]:
    def fault(dataset: Dataset) -> None:
        for name in names:
            getattr(dataset, name)[to] = getattr(dataset, name)[source]

    return fault


def with_spec(**changes: Any) -> Callable[[Dataset], Dataset]:
    return lambda dataset: replace(dataset, spec=replace(dataset.spec, **changes))


def one_length(dataset: Dataset) -> Dataset:
    """All episodes have 11 steps, and a terminal."""
    ends = np.zeros((ROWS // 10 * 10, 3), bool)
    ends[9::10] = True
    rows = len(ends)
    cut = {name: array[:rows] for name, array in dataset.arrays().items() if len(array) == ROWS}
    cut |= {"terminals": ends, "truncations": np.zeros_like(ends)}
    cut["episode_starts"] = np.arange(0, rows, 10)
    cut["observations"][..., 0] = (np.arange(rows) % 10)[:, None] / 20
    return replace(dataset, **cut, final_observations=None)


def at_the_limit(dataset: Dataset) -> Dataset:
    """The Spec knows a limit, and an episode ends there with a terminal."""
    return replace(dataset, spec=replace(dataset.spec, episode_limit=14))


def own_rewards(dataset: Dataset) -> Dataset:
    dataset.rewards[row(5, 3), 1] += 1
    return dataset


def cut_step(dataset: Dataset) -> Dataset:
    """A step of episode 6 is not in the log."""
    keep = np.arange(ROWS) != row(6, 5)
    arrays = {n: array[keep] for n, array in dataset.arrays().items() if len(array) == ROWS}
    starts = np.where(row(6, 5) < STARTS, STARTS - 1, STARTS)
    return replace(dataset, **arrays, episode_starts=starts)


NAN, INF = np.nan, np.inf
SAME = ("observations", "actions", "rewards", "state", "action_mask")
CLOCK = (slice(None), 0)

PLANTS = {
    "nan in an observation": Plant(
        "non-finite observation", (3, 4, "bo", "observations[2]"), "it is nan",
        put("observations", (row(3, 4), 1, 2), NAN),
    ),
    "inf in an observation": Plant(
        "non-finite observation", (11, 10, "cy", "observations[4]"), "it is inf",
        put("observations", (row(11, 10), 2, 4), INF),
    ),
    "number too large for float32": Plant(
        "non-finite reward", (2, 3, "ada", "rewards"), "1e+300",
        lambda d: replace(d, rewards=np.where(
            (np.arange(ROWS) == row(2, 3))[:, None] & (np.arange(3) == 0), 1e300,
            d.rewards.astype(np.float64))),
    ),
    "nan in a reward": Plant(
        "non-finite reward", (0, 0, "cy", "rewards"), "is nan",
        put("rewards", (row(0, 0), 2), NAN),
    ),
    "nan in the state": Plant(
        "non-finite state", (4, 7, None, "state[1]"), "it is nan",
        put("state", (row(4, 7), 1), NAN),
    ),
    "nan in a final observation": Plant(
        "non-finite final observation", (8, None, "bo", "final_observations[3]"), "is nan",
        put("final_observations", (8, 1, 3), NAN),
    ),
    "nan in a box action": Plant(
        "non-finite action", (7, 2, "ada", "actions"), "entry 1 is nan",
        put("actions", (row(7, 2), 0, 1), NAN), base=build_clean_box,
    ),
    "box action out of bounds": Plant(
        "action outside its bounds", (7, 2, "cy", "actions[1]"), "outside -2 to 2",
        put("actions", (row(7, 2), 2, 1), 2.5), base=build_clean_box,
    ),
    "box action that never changes": Plant(
        "constant action", (None, None, "bo", "actions[0]"), "it is 0.25 in every step",
        put("actions", (slice(None), 1, 0), 0.25), base=build_clean_box,
    ),
    "action id too large": Plant(
        "action out of range", (1, 11, "bo", "actions"), "actions go from 0 to 3",
        put("actions", (row(1, 11), 1), 4),
    ),
    "action id negative": Plant(
        "action out of range", (1, 0, "ada", "actions"), "action -1",
        put("actions", (row(1, 0), 0), -1),
    ),
    "action id fractional": Plant(
        "action out of range", (9, 1, "ada", "actions"), "action 1.5",
        lambda d: replace(d, actions=np.where(
            (np.arange(ROWS) == row(9, 1))[:, None] & (np.arange(3) == 0), 1.5, d.actions)),
    ),
    "illegal action": Plant(
        "illegal action", (5, 5, "cy", "actions"), "not among the legal ones (1)",
        both(put("actions", (row(5, 5), 2), 0),
             put("action_mask", (row(5, 5), 2), (False, True, False, False))),
    ),
    "no legal action": Plant(
        "no legal action", (10, 4, "bo", "action_mask"), "no action is legal",
        put("action_mask", (row(10, 4), 1), False),
    ),
    "ids from 1 on": Plant(
        "first action never taken", (None, None, None, "actions"), "takes 0, but 4 is taken",
        lambda d: replace(
            d,
            actions=d.actions + 1,
            action_mask=np.concatenate([np.ones((ROWS, 3, 1), bool), d.action_mask], axis=2),
            spec=replace(d.spec, action=ActionSpace("discrete", 5)),
        ),
    ),
    "agent with one action": Plant(
        "agent has one action", (None, None, "bo", "actions"), "its action is 2 in every step",
        both(put("actions", (slice(None), 1), 2), put("action_mask", (slice(None), 1, 2), True)),
    ),
    "episode without an end": Plant(
        "episode without an end", (6, 12, None, "terminals"), "neither terminal nor truncated",
        put("terminals", row(6, 12), False),
    ),
    "padding after the end": Plant(
        "steps after the end", (8, 9, None, "terminals"), "another step follows",
        put("terminals", row(8, 9), True), count=1,
    ),
    "time-out in the middle": Plant(
        "steps after the end", (8, 3, None, "terminals"), "another step follows",
        put("truncations", row(8, 3), True),
    ),
    "agent acts after its end": Plant(
        "agent acts after its end", (3, 5, "ada", "agent_mask"), "the step before was its terminal",
        put("terminals", (row(3, 4), 0), True),
    ),
    "terminal and truncated": Plant(
        "terminal and truncated", (2, 6, "ada", "truncations"), "both",
        put("truncations", row(2, 6), True), count=3,
    ),
    "all flags lost": Plant(
        "no flag is set", (None, None, None, "terminals"), "0 in all 120 steps",
        both(put("terminals", slice(None), False), put("truncations", slice(None), False)),
    ),
    "terminals lost": Plant(
        "no terminal", (None, None, None, "terminals"), "all of 12 episodes",
        lambda d: replace(d, terminals=np.zeros_like(d.terminals),
                          truncations=d.terminals | d.truncations),
    ),
    "terminals at one length": Plant(
        "terminals at one length", (0, 9, None, "terminals"), "all 12 episodes have 10 steps",
        one_length, count=12,
    ),
    "time-out marked as terminal": Plant(
        "terminals at the limit", (8, 13, None, "terminals"), "1 of 12",
        at_the_limit,
    ),
    "episode longer than the limit": Plant(
        "longer than the limit", (8, 13, None, None), "14 steps, but the limit is 13",
        lambda d: with_spec(episode_limit=13)(
            replace(d, terminals=np.zeros_like(d.terminals),
                    truncations=d.terminals | d.truncations)),
    ),
    "episode of one step": Plant(
        "episode of one step", (1, None, None, None), "one step",
        lambda d: replace(
            d, episode_starts=np.insert(STARTS, 1, 8),
            final_observations=np.concatenate([d.final_observations, np.ones((1, 3, 5), "f4")]),
            terminals=d.terminals | (np.arange(ROWS) == 7)[:, None],
            observations=np.where((np.arange(ROWS) == 8)[:, None, None], np.float32(0.01),
                                  d.observations)),
    ),
    "time goes backwards": Plant(
        "time goes backwards", (6, 8, "ada", "observations[0]"), "otherwise by 0.05",
        put("observations", (row(6, 8), *CLOCK), 6 / 20),
    ),
    "time stands still": Plant(
        "time stands still", (9, 9, "ada", "observations[0]"), "moves by 0,",
        put("observations", (row(9, 9), *CLOCK), np.float32(8 / 20)),
    ),
    "steps missing": Plant(
        "time jumps", (6, 5, "ada", "observations[0]"), "moves by 0.1", cut_step,
    ),
    "row twice": Plant(
        "row occurs twice in a row", (9, 4, None, None), "those of the step before",
        copy_rows(SAME, row(9, 4), row(9, 3)),
    ),
    "episode twice": Plant(
        "episode occurs twice", (9, None, None, None), "the same as episode 5",
        copy_rows(SAME, slice(row(9, 0), row(9, 0) + 10), slice(row(5, 0), row(5, 0) + 10)),
    ),
    "few different episodes": Plant(
        "few different episodes", (None, None, None, None), "8 of 16 episodes are the same as an",
        lambda dataset: take_episodes(dataset, np.array([*range(8), *(3, 0, 6, 1, 7, 2, 5, 4)])),
    ),
    "file read twice": Plant(
        "episode occurs twice", (12, None, None, None), "the same as episode 0",
        lambda dataset: take_episodes(dataset, np.tile(np.arange(12), 2)), count=12,
    ),
    "constant feature": Plant(
        "constant feature", (None, None, "bo", "observations[3]"), "it is 0.5 in every step",
        put("observations", (slice(None), 1, 3), 0.5),
    ),
    "constant state": Plant(
        "constant feature", (None, None, None, "state[2]"), "it is 1.0 in every step",
        put("state", (slice(None), 2), 1),
    ),
    "duplicated feature": Plant(
        "duplicated feature", (None, None, "cy", "observations[4]"), "equals observations[1]",
        copy_rows(("observations",), (slice(None), 2, 4), (slice(None), 2, 1)),
    ),
    "agents see the same": Plant(
        "agents see the same", (None, None, "cy", None), "what ada sees",
        copy_rows(("observations",), (slice(None), 2), (slice(None), 0)),
    ),
    "blank observation": Plant(
        "blank observation", (4, 0, "bo", "observations"), "all features are 0",
        put("observations", (row(4, 0), 1), 0),
    ),
    "padding of -inf": Plant(
        "infinite padding", (None, None, "bo", "observations[4]"), "-inf in every step",
        put("observations", (slice(None), 1, 4), -INF),
    ),
    "padding not empty": Plant(
        "padding not empty", (0, 0, "cy", "observations[4]"), "this agent has 4 features",
        with_spec(observation_sizes=(5, 5, 4)), count=ROWS,
    ),
    "agent never there": Plant(
        "agent never there", (None, None, "cy", "agent_mask"), "absent in every step",
        both(put("agent_mask", (slice(None), 2), False), put("rewards", (slice(None), 2), 0)),
    ),
    "agent missing from an episode": Plant(
        "agent missing from an episode", (7, None, "bo", "agent_mask"), "91.7% of the episodes",
        both(put("agent_mask", (slice(row(7, 0), row(8, 0)), 1), False),
             put("rewards", (slice(row(7, 0), row(8, 0)), 1), 0)),
    ),
    "nobody there": Plant(
        "nobody there", (3, 2, None, "agent_mask"), "no agent takes part",
        both(put("agent_mask", row(3, 2), False), put("rewards", row(3, 2), 0)),
    ),
    "reward of an absent agent": Plant(
        "reward of an absent agent", (3, 2, "bo", "rewards"), "its reward is 3.0",
        both(put("agent_mask", (row(3, 2), 1), False), put("rewards", (row(3, 2), 1), 3)),
    ),
    "no reward": Plant(
        "no reward", (None, None, None, "rewards"), "every reward is 0",
        put("rewards", slice(None), 0),
    ),
    "reward far out": Plant(
        "reward far out", (10, 2, "ada", "rewards"), "reward 5000, but 99% of rewards",
        lambda d: with_spec(shared_reward=False)(
            replace(d, rewards=np.where(
                (np.arange(ROWS) == row(10, 2))[:, None] & (np.arange(3) == 0), 5e3, d.rewards))),
    ),
    "rewards too large": Plant(
        "reward scale", (None, None, None, "rewards"), "99% of rewards",
        lambda d: replace(d, rewards=d.rewards * 1e5),
    ),
    "rewards too small": Plant(
        "reward scale", (None, None, None, "rewards"), "99% of rewards",
        lambda d: replace(d, rewards=d.rewards * 1e-6),
    ),
    "rewards differ": Plant(
        "rewards differ", (5, 3, "bo", "rewards"), "another agent", own_rewards,
    ),
}  # fmt: skip
"""Each fault by what was done to the log."""
