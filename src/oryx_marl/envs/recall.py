"""Recall: a cue is seen once, and both agents must name it many steps later.

A diagnostic of memory alone. One of four cues is seen in the first step of an episode. For `delay`
steps the only available action is to wait, and nothing is seen. Then a flag says that it is time to
answer, and waiting is no longer available: both agents get reward 1 if both name the cue, else 0.
That ends the episode (terminal). Answers at random succeed in one of 16 episodes.

Both agents see the cue, so that agents which act independently can succeed as well, and whoever
fails has forgotten it. With `both_see=False` only the first agent sees it. Then the second can know
it only from the answer of the first in the same step: that needs autoregressive actions, with the
first agent acting first.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from oryx_marl.envs._recall_scenarios import ONE_SEES, check_config
from oryx_marl.envs._recall_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._recall_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

NUM_AGENTS = 2
NUM_CUES = 4
NUM_FEATURES = NUM_CUES + 1
"""The cue, one-hot, zeros after the first step; whether to answer now."""
WAIT = 0
"""Action 0; actions 1 to 4 name the cues."""
TINTS = np.array(
    [(214, 69, 65), (232, 190, 52), (38, 155, 92), (66, 124, 214), (150, 156, 166)], np.uint8
)
"""Of the cues in pictures, and of no answer."""


class State(NamedTuple):
    """What is to be recalled, and what was answered; unbatched."""

    cue: jax.Array
    """[] int32."""
    answers: jax.Array
    """[N] int32: the cue that each agent named, -1 for none."""
    step_count: jax.Array
    """[] int32."""


class Recall:
    """Tasks of one delay."""

    action_names: tuple[str, ...] = ("wait", *(f"cue {cue}" for cue in range(NUM_CUES)))
    return_name = "success rate"
    feature_range = (0.0, 1.0)
    reset_pool_rate = 0.0
    num_starts: int | None = NUM_CUES
    version = 1

    def __init__(self, delay: int = 60, both_see: bool = True) -> None:
        check_config(delay)
        self.delay = delay
        self.both_see = both_see
        self.name = f"recall-{delay}" + ("" if both_see else ONE_SEES)
        self.spec = Spec(
            environment="recall",
            agents=("agent_0", "agent_1"),
            observation_sizes=(NUM_FEATURES,) * NUM_AGENTS,
            action=ActionSpace("discrete", 1 + NUM_CUES),
            episode_limit=delay + 1,
            state_size=NUM_CUES + 1,
            environment_config={"delay": delay, "both_see": both_see},
        )

    def __eq__(self, other: object) -> bool:
        """Tasks of equal settings are equal, so that compiled functions are shared by them."""
        return isinstance(other, Recall) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """The cue is drawn and shown."""
        cue = jax.random.randint(key, (), 0, NUM_CUES, jnp.int32)
        state = State(cue, jnp.full(NUM_AGENTS, -1, jnp.int32), jnp.int32(0))
        return state, self._answer(state)

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """Answers count at the time to answer alone; to wait then is a wrong one."""
        del key  # nothing is random after the reset
        is_time = state.step_count == self.delay
        answers = jnp.where(is_time, actions.astype(jnp.int32) - 1, -1)
        state = State(state.cue, answers, state.step_count + 1)
        return state, self._answer(state)

    def render_text(self, state: State) -> str:
        """The cue, also when nobody sees it, and the answers."""
        title = f"step {int(state.step_count)}: cue {int(state.cue)}, answer at {self.delay}"
        answers = [str(int(answer)) if answer >= 0 else "-" for answer in state.answers]
        return f"{title}\nagent_0 {answers[0]}\nagent_1 {answers[1]}"

    def render_rgb(self, state: State) -> np.ndarray:
        """The cue above the two answers, under a bar that grows with time."""
        picture = np.full((6, 5, 3), (244, 241, 233), np.uint8)
        gone = int(state.step_count) * 5 // (self.delay + 1)
        picture[0, :gone] = (52, 58, 70)
        picture[2, 2] = TINTS[int(state.cue)]
        picture[4, [1, 3]] = TINTS[np.asarray(state.answers)]
        return np.kron(picture, np.ones((24, 24, 1), np.uint8))

    def _answer(self, state: State) -> Step:
        is_time = state.step_count == self.delay
        success = jnp.all(state.answers == state.cue)
        cue = jax.nn.one_hot(state.cue, NUM_CUES)
        sees = jnp.array([True, self.both_see])[:, None] & (state.step_count == 0)
        flag = jnp.full((NUM_AGENTS, 1), is_time)
        waits = jnp.full((NUM_AGENTS, 1), ~is_time)
        time = (state.step_count / (self.delay + 1))[None]
        observation = Observation(
            features=jnp.concatenate([sees * cue, flag], axis=1).astype(jnp.int8),
            action_mask=jnp.concatenate([waits, *[flag] * NUM_CUES], axis=1),
            agent_mask=jnp.ones(NUM_AGENTS, bool),
            reset=state.step_count == 0,
            step_count=state.step_count,
        )
        return Step(
            observation=observation,
            rewards=jnp.full(NUM_AGENTS, success, jnp.float32),
            terminal=jnp.full(NUM_AGENTS, state.step_count > self.delay),
            truncated=jnp.zeros(NUM_AGENTS, bool),
            state=jnp.concatenate([cue, time]).astype(jnp.float32),
            metrics={"success": success.astype(jnp.float32)},
        )


def name_actions(**config: Any) -> tuple[str, ...]:
    """What the actions are called, whatever the settings."""
    return Recall.action_names


def make(**config: Any) -> Recall:
    """The tasks of these settings: delay, both_see."""
    known = {"delay", "both_see"}
    if unknown := sorted(set(config) - known):
        raise OryxError(
            f"recall has no setting {', '.join(unknown)}; it has: {', '.join(sorted(known))}"
        )
    return Recall(**config)
