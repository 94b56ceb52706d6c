"""The next state of a logged step in the installed MuJoCo, from the log alone.

A robot's positions and velocities are the whole of its physics; where on the ground it is changes
nothing. So a log that holds them can be compared with the simulator, step by step.
"""

import numpy as np
from jaxtyping import Bool, Float, Num

from oryx_marl.envs import _mamujoco_views
from oryx_marl.envs.mamujoco import TIME_LIMIT, make
from oryx_marl.types import Spec

ROUNDING = 1e-4
"""By which a velocity may miss its limit after it was standardised and back."""
OLD_FORCES = 6
"""Numbers that MuJoCo 2's ant had more: the forces on the world."""


class Predictor:
    """See `envs.Predictor`; one simulation of each row at a time."""

    episode_limit = TIME_LIMIT

    def __init__(self, robot: str, agents: str, view: str = "gymnasium", obsk: int = 1) -> None:
        self._settings = (robot, agents)
        env = make(robot, agents, num_envs=1, num_workers=1)
        self._robot, self.name = env.robot, env.name
        self.spec, self.simulator = env.spec, env.simulator
        layout = env.layout
        self._num_positions = layout.num_positions
        self._num_read = layout.num_positions + layout.num_velocities
        env.close()

    def find_fault(self, spec: Spec) -> str | None:
        """Why logs of this Spec cannot be compared, or None."""
        ours, width, count = self.spec, self.spec.state_size, self.spec.num_agents
        if spec.num_agents != count or spec.action.size != ours.action.size:
            return (
                f"it has {spec.num_agents} agents with {spec.action.size} torques each, "
                f"{self.name} has {count} with {ours.action.size}"
            )
        if self._is_plain(spec) or self._is_normalised(spec) or self._is_normalised_state(spec):
            return None
        if spec.state_size in (width + OLD_FORCES, width + OLD_FORCES + count):
            extra = spec.state_size - width - OLD_FORCES
            return (
                f"its state has {spec.state_size} numbers where {self.simulator} has "
                f"{width + extra}: older versions counted forces on the world too, and gave agents "
                "other joints. Neither states nor policies can be carried over"
            )
        return (
            f"its state has {spec.state_size} numbers, not the {width} of {self.name} "
            f"(or {width + count} with ids)"
        )

    def read(
        self, observations: Num[np.ndarray, "R N O"], state: Num[np.ndarray, "R S"] | None
    ) -> Float[np.ndarray, "R P"]:
        """Positions and velocities of logged steps, for a Spec without fault."""
        width, count = self.spec.state_size, self.spec.num_agents
        if state is not None and state.shape[1] in (width, width * count):
            return state[:, : self._num_read].astype(np.float64)
        if observations.shape[2] == width + count:
            found = _mamujoco_views.denormalise(observations[:, 0], 0, count)
        else:
            assert state is not None
            whose = int(np.median(state[:, -count:].argmax(axis=1)))
            found = _mamujoco_views.denormalise(state, whose, count)
        return found[:, : self._num_read]

    def find_usable(self, read: Float[np.ndarray, "R P"]) -> Bool[np.ndarray, " R"]:
        """Rows of which all is known: a velocity at its limit was clipped."""
        velocities = np.abs(read[:, self._num_positions :])
        is_known = (velocities < self._robot.velocity_limit * (1 - ROUNDING)).all(axis=1)
        return np.isfinite(read).all(axis=1) & is_known

    def step(
        self, read: Float[np.ndarray, "R P"], actions: Num[np.ndarray, "R N A"]
    ) -> Float[np.ndarray, "R P"]:
        """What the simulator makes of these steps."""
        env = make(*self._settings, num_envs=len(read))
        hidden = np.zeros((len(read), self._robot.num_hidden))
        positions, velocities = np.split(read, [self._num_positions], axis=1)
        found = env.predict(np.concatenate([hidden, positions], axis=1), velocities, actions)
        env.close()
        return found[:, : self._num_read]

    def _is_plain(self, spec: Spec) -> bool:
        """The state itself, once or once for each agent, as in OMAR's data."""
        width = self.spec.state_size
        return spec.state_size in (width, width * self.spec.num_agents)

    def _is_normalised(self, spec: Spec) -> bool:
        return set(spec.observation_sizes) == {self.spec.state_size + self.spec.num_agents}

    def _is_normalised_state(self, spec: Spec) -> bool:
        return spec.state_size == self.spec.state_size + self.spec.num_agents


make_predictor = Predictor
