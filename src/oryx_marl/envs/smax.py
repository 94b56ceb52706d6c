"""SMAX: a team of units fights an equally large one that follows a hand-written policy.

The environment is jaxmarl's `HeuristicEnemySMAX` in the smacv2 scenarios, with the settings of the
paper: types of all units and their places are drawn anew for every episode, units that touch the
edge die, enemies attack whoever is closest. Here only that is added which a learner needs: nothing
resets by itself, so the last observation is kept, and an ended fight (terminal) is told from a
fight that ran out of time (truncated).

An agent sees of every other unit, allies first, 13 numbers (zeros where it is dead or out of sight:
health, place relative to its own, last move, last attack, cooldown, type), then 10 of its own. A
dead agent sees zeros and can only stop. All agents share the reward: the health that the enemies
lost in the step, of all that they had, and 1 for a fight won; so 2 at most.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from oryx_marl.envs import _smax_render, base
from oryx_marl.envs._smax_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._smax_scenarios import check_config
from oryx_marl.envs._smax_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

MOVES = ("up", "right", "down", "left", "stop")

State = Any
"""jaxmarl's own: of the world, and of the enemies' policy."""


class Smax:
    """Fights of one size."""

    return_name = "return"
    feature_range = (-2.0, 2.0)
    """A unit that others push over the edge is seen there once, a little beyond 1."""
    reset_pool_rate = 0.0
    num_starts: int | None = None
    version = 1

    def __init__(self, num_units: int = 5) -> None:
        check_config(num_units)
        smax = base.optional("jaxmarl.environments.smax")
        types = jnp.zeros(2 * num_units, jnp.uint8)  # drawn at the reset; these only count
        self._fight = smax.HeuristicEnemySMAX(
            scenario=smax.Scenario(types, num_units, num_units, True, True),
            see_enemy_actions=True,
            walls_cause_death=True,
            attack_mode="closest",
        )
        self.num_units = num_units
        self.name = f"smacv2_{num_units}_units"
        self.action_names = name_actions(num_units)
        self.spec = Spec(
            environment="smax",
            agents=tuple(self._fight.agents),
            observation_sizes=(self._fight.obs_size,) * num_units,
            action=ActionSpace("discrete", len(self.action_names)),
            # jaxmarl looks at the clock before it moves on, so there is one step more.
            episode_limit=self._fight.max_steps + 1,
            state_size=self._fight.state_size,
            environment_config={"num_units": num_units},
        )

    def __eq__(self, other: object) -> bool:
        """Fights of equal size are equal, so that compiled functions are shared by them."""
        return isinstance(other, Smax) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """Both teams, with types and places drawn anew."""
        seen, state = self._fight.reset(key)
        return state, self._answer(state, seen, jnp.zeros(self.num_units), jnp.bool_(False))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """Everybody acts at once; an illegal action is a stop."""
        # jaxmarl would let an attack on someone far away begin as soon as that one comes near.
        is_available = self._action_mask(state)[jnp.arange(self.num_units), actions]
        actions = jnp.where(is_available, actions, MOVES.index("stop"))
        orders = {agent: actions[index] for index, agent in enumerate(self.spec.agents)}
        seen, state, rewards, ended, _ = self._fight.step_env(key, state, orders)
        return state, self._answer(state, seen, self._stack(rewards), ended["__all__"])

    def render_text(self, state: State) -> str:
        """The field in characters: allies in capitals, enemies in small letters, by type."""
        return _smax_render.text(self._scene(state))

    def render_rgb(self, state: State) -> np.ndarray:
        """The field in pixels: allies blue, enemies red, filled as far as they are healthy."""
        return _smax_render.rgb(self._scene(state))

    def _answer(self, state: State, seen: Any, rewards: Array, ended: Array) -> Step:
        """What jaxmarl says, in our words."""
        alive = state.state.unit_alive
        decided = ~alive[: self.num_units].any() | ~alive[self.num_units :].any()
        observation = Observation(
            features=self._stack(seen),
            action_mask=self._action_mask(state),
            agent_mask=jnp.ones(self.num_units, bool),
            reset=state.state.step == 0,
            step_count=state.state.step,
        )
        return Step(
            observation=observation,
            rewards=rewards,
            terminal=jnp.full(self.num_units, ended & decided),
            truncated=jnp.full(self.num_units, ended & ~decided),
            state=seen["world_state"],
        )

    def _action_mask(self, state: State) -> Bool[Array, "N A"]:
        return self._stack(self._fight.get_avail_actions(state)).astype(bool)

    def _stack(self, by_agent: Any) -> Array:
        return jnp.stack([by_agent[agent] for agent in self.spec.agents])

    def _scene(self, state: State) -> _smax_render.Scene:
        world = jax.device_get(state.state)
        attacks = world.prev_attack_actions - len(MOVES)
        # Enemies count the allies from the last one.
        victims = np.where(
            np.arange(2 * self.num_units) < self.num_units,
            self.num_units + attacks,
            self.num_units - 1 - attacks,
        )
        return _smax_render.Scene(
            size=(self._fight.map_width, self._fight.map_height),
            places=world.unit_positions,
            types=world.unit_types,
            radii=np.asarray(self._fight.unit_type_radiuses)[world.unit_types],
            health=world.unit_health / np.asarray(self._fight.unit_type_health)[world.unit_types],
            victims=np.where(attacks >= 0, victims, -1),
            step=int(world.step),
        )


def name_actions(num_units: int = 5) -> tuple[str, ...]:
    """What the actions are called."""
    return (*MOVES, *(f"attack {enemy}" for enemy in range(num_units)))


def make(**config: Any) -> Smax:
    """The fights of these settings: num_units."""
    if unknown := sorted(set(config) - {"num_units"}):
        raise OryxError(f"smax has no setting {', '.join(unknown)}; it has: num_units")
    return Smax(**config)
