"""RWARE: robots bring requested shelves to the goals of a warehouse and put them back.

The rules are those of `rware` 2.0, step by step the same (tests/envs/test_rware_reference.py), in
JAX. Robots turn, go forward, and pick up or put down a shelf. One that carries nothing passes under
shelves; one with a shelf does not. Q shelves are requested at any time; one that is carried to a
goal is delivered, and another is requested in its place. An episode has 500 steps and is then
truncated: rware calls it done, but the work would go on.

All move at once. Of several that want one cell, the one with the longest chain of followers goes
forward; of equally long ones that with the lowest number, where rware takes one by the order in
which its graph lists cells. Rings of three and more turn; two never change places.

What an agent sees, 71 whole numbers as in rware:

     8   column, row, whether it carries a shelf, its direction (4), whether it is on a highway
    63   of each of the 3 x 3 cells around it, row by row: an agent, its direction (4; up where
         there is none), a shelf, a requested one

Rewards: `individual`, 1 to whoever delivers, as rware has it; `global`, 1 to all; `two-stage`, a
half for the delivery and a half for putting that shelf back; `shaped`, individual and for each step
0.006 on a requested shelf that is carried, 0.003 under one that is not, 0.001 with one in sight;
`agent0`, the shaped reward of the first agent for all of them, which is what the published datasets
have. Whatever the reward, an episode reports its `deliveries` and its `agent0_return`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.envs import _rware_render, _rware_rules
from oryx_marl.envs._rware_rules import NOTHING, NUM_FEATURES, Events, State
from oryx_marl.envs._rware_scenarios import ACTION_MASKS, REWARDS, Size, check_config, name_of
from oryx_marl.envs._rware_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._rware_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

TIME_LIMIT = 500
SETTINGS = (
    "shelf_rows",
    "shelf_columns",
    "column_height",
    "num_agents",
    "num_requests",
    "reward",
    "action_mask",
)


class Rware:
    """Warehouses of one size."""

    action_names: tuple[str, ...] = ("noop", "forward", "left", "right", "toggle load")
    return_name = "return"
    reset_pool_rate = 1 / 16
    """Starts cost more than steps: they are drawn without replacement. All episodes end together,
    so that each roll-out, of 16 steps or more, has one for every environment."""
    num_starts: int | None = None
    version = 1

    def __init__(
        self,
        shelf_rows: int = 1,
        shelf_columns: int = 3,
        column_height: int = 8,
        num_agents: int = 2,
        num_requests: int | None = None,
        reward: str = REWARDS[0],
        action_mask: str = ACTION_MASKS[0],
    ) -> None:
        num_requests = num_agents if num_requests is None else num_requests
        size = Size(shelf_rows, shelf_columns, column_height)
        check_config(*size, num_agents, num_requests, reward, action_mask)
        self.size = size
        self.floor = _rware_rules.make_floor(size)
        self.num_requests = num_requests
        self.reward = reward
        self.action_mask = action_mask
        self.name = name_of(size, num_agents, num_requests, reward, action_mask)
        largest = max(size.grid) - 1
        self.feature_range = (0.0, float(largest))
        self.dtype = jnp.int8 if largest <= 127 else jnp.int16
        self.spec = Spec(
            environment="rware",
            agents=tuple(f"agent_{index}" for index in range(num_agents)),
            observation_sizes=(NUM_FEATURES,) * num_agents,
            action=ActionSpace("discrete", len(self.action_names)),
            episode_limit=TIME_LIMIT,
            state_size=3 * num_agents + 2 * num_requests,
            shared_reward=reward in ("global", "agent0"),
            environment_config={
                **size._asdict(),
                "num_agents": num_agents,
                "num_requests": num_requests,
                "reward": reward,
                "action_mask": action_mask,
            },
        )

    def __eq__(self, other: object) -> bool:
        """Warehouses of equal settings are equal, so that compiled functions are shared by them."""
        return isinstance(other, Rware) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """Shelves at home, agents anywhere, requests drawn."""
        cell_key, direction_key, request_key = jax.random.split(key, 3)
        num_agents, homes = self.spec.num_agents, jnp.asarray(self.floor.homes)
        cells = jnp.asarray(np.flatnonzero(self.floor.inside).astype(np.int32))
        state = State(
            cells=jax.random.choice(cell_key, cells, (num_agents,), replace=False),
            directions=jax.random.randint(direction_key, (num_agents,), 0, 4, jnp.int32),
            carried=jnp.full(num_agents, NOTHING, jnp.int32),
            has_delivered=jnp.zeros(num_agents, bool),
            shelves=homes,
            requests=jax.random.choice(
                request_key,
                jnp.arange(len(homes), dtype=jnp.int32),
                (self.num_requests,),
                replace=False,
            ),
            step_count=jnp.int32(0),
            deliveries=jnp.float32(0),
            agent0_return=jnp.float32(0),
        )
        features = _rware_rules.find_features(self.floor, state)
        return state, self._answer(state, features, jnp.zeros(num_agents))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """Everybody acts at once; what cannot be done is a noop."""
        num_free = len(self.floor.homes) - self.num_requests
        draws = jax.random.randint(key, (len(self.floor.goals),), 0, num_free, jnp.int32)
        return self.replay(state, actions, draws)

    def replay(
        self,
        state: State,
        actions: Int[Array, "N"],
        draws: Int[Array, "2"],
        order: Int[Array, "N"] | None = None,
    ) -> tuple[State, Step]:
        """The same with all chance given, such as that of a recording; see `advance`."""
        state, events = _rware_rules.advance(self.floor, state, actions, draws, order)
        features = _rware_rules.find_features(self.floor, state)
        shaped = events.delivered + _rware_rules.shape(features)
        state = state._replace(agent0_return=state.agent0_return + shaped[0])
        return state, self._answer(state, features, self._reward(events, shaped))

    def render_text(self, state: State) -> str:
        """The floor in characters: agents are arrows with their numbers."""
        return _rware_render.text(self._scene(state))

    def render_rgb(self, state: State) -> np.ndarray:
        """The floor in pixels: agents are discs with a mark ahead, requested shelves stand out."""
        return _rware_render.rgb(self._scene(state))

    def _reward(self, events: Events, shaped: Float[Array, "N"]) -> Float[Array, "N"]:
        delivered = events.delivered.astype(jnp.float32)
        if self.reward == "global":
            return jnp.full_like(delivered, delivered.sum())
        if self.reward == "two-stage":
            return 0.5 * delivered + 0.5 * events.put_back
        if self.reward == "shaped":
            return shaped
        return jnp.full_like(shaped, shaped[0]) if self.reward == "agent0" else delivered

    def _answer(
        self, state: State, features: Int[Array, "N O"], rewards: Float[Array, "N"]
    ) -> Step:
        num_agents = self.spec.num_agents
        if self.action_mask == "effective":
            action_mask = _rware_rules.find_action_mask(self.floor, state)
        else:
            action_mask = jnp.ones((num_agents, len(self.action_names)), bool)
        agents = jnp.stack([*_rware_rules.place(self.floor, state.cells), state.directions], axis=1)
        requested = _rware_rules.place(self.floor, state.shelves[state.requests])
        whole = jnp.concatenate([agents.ravel(), jnp.stack(requested, axis=1).ravel()])
        observation = Observation(
            features=features.astype(self.dtype),
            action_mask=action_mask,
            agent_mask=jnp.ones(num_agents, bool),
            reset=state.step_count == 0,
            step_count=state.step_count,
        )
        return Step(
            observation=observation,
            rewards=rewards.astype(jnp.float32),
            terminal=jnp.zeros(num_agents, bool),
            truncated=jnp.full(num_agents, state.step_count >= TIME_LIMIT),
            state=whole.astype(jnp.float32),
            metrics={"deliveries": state.deliveries, "agent0_return": state.agent0_return},
        )

    def _scene(self, state: State) -> _rware_render.Scene:
        floor, now = self.floor, jax.device_get(state)
        shape = (self.size.grid[0] + 2, floor.stride)
        shelves = np.zeros(floor.inside.size, int)
        shelves[now.shelves] = 1
        shelves[now.shelves[now.requests]] = 2
        goals = np.zeros(floor.inside.size, bool)
        goals[list(floor.goals)] = True
        x, y = _rware_rules.place(floor, now.cells)
        bare = (slice(1, -1), slice(1, -1))
        return _rware_render.Scene(
            shelves=shelves.reshape(shape)[bare],
            highway=floor.highway.reshape(shape)[bare],
            goals=goals.reshape(shape)[bare],
            places=np.stack([y, x], axis=1),
            directions=now.directions,
            carries=now.carried != NOTHING,
            step=int(now.step_count),
            deliveries=int(now.deliveries),
        )


def name_actions(**config: Any) -> tuple[str, ...]:
    """What the actions are called, whatever the settings."""
    return Rware.action_names


def make(**config: Any) -> Rware:
    """The warehouses of these settings."""
    if unknown := sorted(set(config) - {*SETTINGS}):
        raise OryxError(f"rware has no setting {', '.join(unknown)}; it has: {', '.join(SETTINGS)}")
    return Rware(**config)
