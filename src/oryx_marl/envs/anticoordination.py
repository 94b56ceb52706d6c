"""Anti-coordination: in every step two agents must choose different actions, and see nothing.

A diagnostic of coordination alone. Observations are constant, so an action can depend on nothing
but the actions taken before it: those of earlier steps, or that of the other agent in the same
step. Each of the three actions is as good as any other as long as the two differ: then both get
reward 1, else 0. Agents that act independently and at random differ in two of three steps. The
recording ends after `length` steps (truncated): the task itself has no end.

Metrics: `mistakes`, the share of steps in which the actions were equal, and `mistakes_worst_ten`,
the largest such share of any ten steps 0-9, 10-19 and so on, which shows whether an agent that
plays well at first drifts away later. `mistakes_by_ten` has all of them, from logged actions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.envs._anticoordination_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._anticoordination_scenarios import check_config
from oryx_marl.envs._anticoordination_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

NUM_AGENTS = 2
NUM_ACTIONS = 3
BLOCK = 10
"""Steps over which mistakes are counted together."""
TINTS = np.array([(214, 69, 65), (38, 155, 92), (66, 124, 214)], np.uint8)
"""Of the three actions in pictures."""
PALE, DARK = (244, 241, 233), (52, 58, 70)


class State(NamedTuple):
    """What was done; unbatched."""

    actions: jax.Array
    """[N] int32: the last ones, -1 before the first step."""
    mistakes: jax.Array
    """[] int32: steps with equal actions so far."""
    block_mistakes: jax.Array
    """[] int32: those of the running ten steps."""
    worst: jax.Array
    """[] float32: largest share of mistakes in any ten steps that are over."""
    step_count: jax.Array
    """[] int32."""


class Anticoordination:
    """Games of one length."""

    action_names: tuple[str, ...] = ("a", "b", "c")
    return_name = "return"
    feature_range = (1.0, 1.0)
    reset_pool_rate = 0.0
    num_starts: int | None = 1
    version = 1

    def __init__(self, length: int = 60) -> None:
        check_config(length)
        self.length = length
        self.name = f"anticoordination-{length}"
        self.spec = Spec(
            environment="anticoordination",
            agents=("agent_0", "agent_1"),
            observation_sizes=(1,) * NUM_AGENTS,
            action=ActionSpace("discrete", NUM_ACTIONS),
            episode_limit=length,
            state_size=1,
            environment_config={"length": length},
        )

    def __eq__(self, other: object) -> bool:
        """Games of equal length are equal, so that compiled functions are shared by them."""
        return isinstance(other, Anticoordination) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """All games begin alike."""
        del key  # nothing is random
        nothing = jnp.int32(0)
        actions = jnp.full(NUM_AGENTS, -1, jnp.int32)
        state = State(actions, nothing, nothing, jnp.float32(0), nothing)
        return state, self._answer(state, jnp.bool_(False))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """Both are rewarded if their actions differ."""
        del key  # nothing is random
        mistake = (actions[0] == actions[1]).astype(jnp.int32)
        place = state.step_count % BLOCK
        block_mistakes = jnp.where(place == 0, 0, state.block_mistakes) + mistake
        step_count = state.step_count + 1
        is_over = (place == BLOCK - 1) | (step_count >= self.length)
        share = jnp.where(is_over, block_mistakes / (place + 1), 0)
        state = State(
            actions=actions.astype(jnp.int32),
            mistakes=state.mistakes + mistake,
            block_mistakes=block_mistakes,
            worst=jnp.maximum(state.worst, share),
            step_count=step_count,
        )
        return state, self._answer(state, mistake == 0)

    def render_text(self, state: State) -> str:
        """Who has chosen what, and how many mistakes there were."""
        chosen = [self.action_names[action] if action >= 0 else "-" for action in state.actions]
        title = f"step {int(state.step_count)}: {int(state.mistakes)} mistakes"
        return f"{title}\nagent_0 {chosen[0]}\nagent_1 {chosen[1]}"

    def render_rgb(self, state: State) -> np.ndarray:
        """Two squares in the colours of the actions on a frame, dark where they are equal."""
        actions = np.asarray(state.actions)
        begun = bool(actions[0] >= 0)
        frame = DARK if begun and actions[0] == actions[1] else PALE
        picture = np.full((3, 5, 3), frame, np.uint8)
        picture[1, [1, 3]] = TINTS[actions] if begun else (150, 156, 166)
        return np.kron(picture, np.ones((24, 24, 1), np.uint8))

    def _answer(self, state: State, differ: Array) -> Step:
        observation = Observation(
            features=jnp.ones((NUM_AGENTS, 1), jnp.float32),
            action_mask=jnp.ones((NUM_AGENTS, NUM_ACTIONS), bool),
            agent_mask=jnp.ones(NUM_AGENTS, bool),
            reset=state.step_count == 0,
            step_count=state.step_count,
        )
        return Step(
            observation=observation,
            rewards=jnp.full(NUM_AGENTS, differ, jnp.float32),
            terminal=jnp.zeros(NUM_AGENTS, bool),
            truncated=jnp.full(NUM_AGENTS, state.step_count >= self.length),
            state=(state.step_count / self.length)[None].astype(jnp.float32),
            metrics={
                "mistakes": state.mistakes / jnp.maximum(state.step_count, 1),
                "mistakes_worst_ten": state.worst,
            },
        )


def mistakes_by_ten(actions: Int[np.ndarray, "E T 2"]) -> Float[np.ndarray, "blocks"]:
    """Share of equal actions in steps 0-9, 10-19 and so on, over all episodes; the last block is
    shorter where the length is no multiple of ten."""
    equal = (actions[..., 0] == actions[..., 1]).mean(axis=0)
    return np.array([equal[first : first + BLOCK].mean() for first in range(0, len(equal), BLOCK)])


def name_actions(**config: Any) -> tuple[str, ...]:
    """What the actions are called, whatever the settings."""
    return Anticoordination.action_names


def make(**config: Any) -> Anticoordination:
    """The games of these settings: length."""
    if unknown := sorted(set(config) - {"length"}):
        raise OryxError(f"anticoordination has no setting {', '.join(unknown)}; it has: length")
    return Anticoordination(**config)
