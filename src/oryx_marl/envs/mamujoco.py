"""Multi-agent MuJoCo: the joints of one robot are shared out among agents, who make it run.

Physics, rewards, ends and observations are those of gymnasium-robotics' `mamujoco_v1` (gymnasium's
-v5 tasks), bit by bit (tests/envs/test_mamujoco_reference.py), for many robots at once on threads.
An action is the torque at each of an agent's joints, between -1 and 1; beyond that MuJoCo clips it,
while its cost counts as it was asked for. All agents share one reward: the way made forward per
second, less the cost of the torques, and 1 for each step in which the robot stands where it can
fall. An episode has 1,000 steps and is then truncated; a hopper, walker or ant that falls
terminates it.

    mamujoco-halfcheetah-6x1          each joint is an agent, sees its neighbours (obsk 1) and root
    mamujoco-halfcheetah-6x1-obsk0    sees its own joint and the root
    mamujoco-halfcheetah-2x3-omar     sees its own joints alone: OMAR's datasets
    mamujoco-hopper-3x1-omiga         sees everything, standardised: OMIGA's datasets

The global state is that of gymnasium: positions without the place on the ground, velocities and,
for the ant, contact forces. An episode reports the `distance` that the robot has made forward.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from oryx_marl.envs import _mamujoco_render, _mamujoco_views, base
from oryx_marl.envs._mamujoco_engine import load_model, make_engine
from oryx_marl.envs._mamujoco_robots import ROBOTS
from oryx_marl.envs._mamujoco_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._mamujoco_scenarios import VIEWS, check_config, name_of
from oryx_marl.envs._mamujoco_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

TIME_LIMIT = 1000
NUM_ENVS = 64
"""Robots side by side where nobody says."""
MOST_ENVS = 65_536


class Mamujoco:
    """Robots of one kind behind the protocol of HostEnv."""

    return_name = "return"
    version = 1

    def __init__(
        self,
        robot: str,
        agents: str,
        view: str = VIEWS[0],
        obsk: int = 1,
        num_envs: int = NUM_ENVS,
        num_workers: int | None = None,
    ) -> None:
        """`num_workers` threads step `num_envs` robots; the rest says which task it is."""
        check_config(robot, agents, view, obsk)
        if not 1 <= num_envs <= MOST_ENVS:
            raise OryxError(f"num_envs must be between 1 and {MOST_ENVS:,}, got {num_envs}")
        self.robot = ROBOTS[robot]
        self.num_envs = num_envs
        model = load_model(self.robot.model)
        self._engine: Any = make_engine(model, num_envs, num_workers, self.robot.has_contacts)
        self._dt = model.opt.timestep * self.robot.frame_skip
        self._qpos0 = model.qpos0.copy()
        parts = self.robot.factorisations[agents]
        motors = {model.joint(model.actuator_trnid[m, 0]).name: m for m in range(model.nu)}
        self._motors = np.array([[motors[joint] for joint in part] for part in parts])
        self.layout = layout = _mamujoco_views.read_layout(model, self.robot)
        self._places = [
            _mamujoco_views.find_places(
                self.robot, layout, part, 0 if view == "omar" else obsk, view != "omar"
            )
            for part in parts
        ]
        self._is_normalised = view == "omiga"
        self.simulator = f"mujoco {base.optional('mujoco').__version__}"
        self.name = name_of(robot, agents, view, obsk)
        self.spec = self._make_spec(robot, agents, view, obsk)
        self.action_names = tuple(f"torque {number}" for number in range(self.spec.action.size))
        self._counts = np.zeros(num_envs, np.int32)
        self._starts = np.zeros(num_envs)
        self._last = self._blank()

    def _make_spec(self, robot: str, agents: str, view: str, obsk: int) -> Spec:
        model, num_agents = self._engine.model, len(self._places)
        bodies = model.nbody - 1 if self.robot.has_contacts else 0
        state = model.nq - self.robot.num_hidden + model.nv + _mamujoco_views.FORCE * bodies
        if self._is_normalised:
            state += num_agents
        sizes = [state if self._is_normalised else len(places) for places in self._places]
        low, high = model.actuator_ctrlrange[self._motors[0]].T
        config: dict[str, Any] = {"robot": robot, "agents": agents, "view": view}
        return Spec(
            environment="mamujoco",
            agents=tuple(f"agent_{number}" for number in range(num_agents)),
            observation_sizes=tuple(sizes),
            action=ActionSpace("box", len(low), tuple(low.tolist()), tuple(high.tolist())),
            episode_limit=TIME_LIMIT,
            state_size=state,
            environment_config=config | ({"obsk": obsk} if view == VIEWS[0] else {}),
        )

    def reset(self, which: Int[np.ndarray, " K"], seeds: Int[np.ndarray, " K"]) -> Step:
        """Robots near their resting pose, as gymnasium draws it from a seed."""
        order = np.argsort(which)
        ids = np.asarray(which)[order]
        starts = [self._draw(int(seed)) for seed in np.asarray(seeds)[order]]
        qpos, qvel = (np.stack(parts) for parts in zip(*starts, strict=True))
        self.engine.reset(ids, qpos, qvel)
        self._counts[ids] = 0
        self._starts[ids] = self._engine.qpos[ids, 0]
        no = np.zeros(len(ids), bool)
        self._put(ids, np.zeros(len(ids)), no, no)
        return self._take(np.asarray(which))

    def step(self, actions: Float[np.ndarray, "E N A"]) -> Step:
        """All robots that have begun and not ended move."""
        last = self._last
        ids = np.flatnonzero(~(last["terminal"] | last["truncated"]))
        if len(ids):
            self._move(ids, np.asarray(actions)[ids])
        return self._take(np.arange(self.num_envs))

    def close(self) -> None:
        """Ends the threads."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def predict(
        self,
        qpos: Float[np.ndarray, "E nq"],
        qvel: Float[np.ndarray, "E nv"],
        actions: Float[np.ndarray, "E N A"],
    ) -> Float[np.ndarray, "E S"]:
        """The states after one step from any others, unrounded; episodes that were begun are lost.

        A solver that begins elsewhere ends within its tolerance, not at the same bits.
        """
        ids, engine = np.arange(self.num_envs), self.engine
        engine.reset(ids, qpos, qvel)
        engine.step(ids, self._find_controls(actions), self.robot.frame_skip)
        self._last = self._blank()
        return self.states()

    def states(self, ids: Int[np.ndarray, " K"] | None = None) -> Float[np.ndarray, "K S"]:
        """gymnasium's observations of the whole robots, unrounded."""
        return self._look(ids, self.robot.velocity_limit)

    def render_rgb(self, which: int) -> np.ndarray:
        """A picture of one robot, uint8 [height, width, 3]."""
        engine = self.engine
        moves_sideways = self.robot.num_hidden > 1  # which is not seen from the side
        return _mamujoco_render.rgb(
            engine.model, engine.qpos[which], self._motors, seen_from_above=moves_sideways
        )

    def _draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities at the start of an episode."""
        model, noise = self.engine.model, self.robot.reset_noise
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        qpos = self._qpos0 + rng.uniform(low=-noise, high=noise, size=model.nq)
        if self.robot.velocity_noise == "normal":
            return qpos, noise * rng.standard_normal(model.nv)
        return qpos, rng.uniform(low=-noise, high=noise, size=model.nv)

    def _move(self, ids: Int[np.ndarray, " K"], actions: Float[np.ndarray, "K N A"]) -> None:
        engine = self.engine
        if not np.isfinite(actions).all():
            index, agent = (int(part) for part in np.argwhere(~np.isfinite(actions))[0][:2])
            raise OryxError(
                f"environment '{self.name}' (number {ids[index]}): the action of "
                f"{self.spec.agents[agent]} is not finite: {actions[index, agent]}"
            )
        controls = self._find_controls(actions)
        before = self._find_place(ids)
        engine.step(ids, controls, self.robot.frame_skip)
        speed = (self._find_place(ids) - before) / self._dt
        self._counts[ids] += 1
        terminal = np.zeros(len(ids), bool)
        gain = speed
        if self.robot.is_healthy is not None:
            stands = self.robot.is_healthy(engine.qpos[ids], engine.qvel[ids])
            gain, terminal = speed + stands * 1.0, ~stands
        truncated = ~terminal & (self._counts[ids] >= TIME_LIMIT)
        self._put(ids, gain - self._find_cost(ids, controls), terminal, truncated)

    def _find_controls(self, actions: Float[np.ndarray, "K N A"]) -> Float[np.ndarray, "K nu"]:
        controls = np.empty((len(actions), self._motors.size))
        controls[:, self._motors.ravel()] = actions.reshape(len(actions), -1)
        return controls

    def _find_place(self, ids: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """How far forward the robots are, as their reward has it."""
        body = self.robot.distance_of_body
        engine = self._engine
        return engine.qpos[ids, 0] if body is None else engine.xpos[ids, body, 0]

    def _find_cost(
        self, ids: Int[np.ndarray, " K"], controls: Float[np.ndarray, "K nu"]
    ) -> Float[np.ndarray, " K"]:
        cost = self.robot.control_cost * np.sum(np.square(controls), axis=-1)
        if not self.robot.has_contacts:
            return cost
        forces = np.clip(self._engine.forces[ids], -1.0, 1.0).reshape(len(ids), -1)
        return cost + self.robot.contact_cost * np.sum(np.square(forces), axis=-1)

    def _look(
        self, ids: Int[np.ndarray, " K"] | None, velocity_limit: float
    ) -> Float[np.ndarray, "K S"]:
        engine = self.engine
        chosen = slice(None) if ids is None else ids
        velocities = np.clip(engine.qvel[chosen], -velocity_limit, velocity_limit)
        parts = [engine.qpos[chosen, self.robot.num_hidden :], velocities]
        if engine.forces is not None:
            forces = np.clip(engine.forces[chosen, 1:], -1.0, 1.0)
            parts.append(forces.reshape(len(forces), -1))
        return np.concatenate(parts, axis=1)

    def _put(
        self,
        ids: Int[np.ndarray, " K"],
        rewards: Float[np.ndarray, " K"],
        terminal: Bool[np.ndarray, " K"],
        truncated: Bool[np.ndarray, " K"],
    ) -> None:
        """What these robots answer from now on."""
        last = self._last
        state = self.states(ids)
        if self._is_normalised:
            views = _mamujoco_views.normalise(state, self.spec.num_agents)
            last["features"][ids], last["state"][ids] = views, views[:, 0]
        else:
            seen = self._look(ids, self.robot.seen_velocity_limit)
            for agent, places in enumerate(self._places):
                last["features"][ids, agent, : len(places)] = seen[:, places]
            last["state"][ids] = state
        last["rewards"][ids], last["present"][ids] = rewards, True
        last["terminal"][ids], last["truncated"][ids] = terminal, truncated
        last["distance"][ids] = self._engine.qpos[ids, 0] - self._starts[ids]

    def _take(self, which: Int[np.ndarray, " K"]) -> Step:
        """The answers of some robots; copies, as they change with the next step."""
        now: dict[str, Any] = {name: array[which] for name, array in self._last.items()}
        counts: Any = self._counts[which]
        agents = (len(which), self.spec.num_agents)
        masks: Any = np.ones((*agents, self.spec.action.size), bool)

        def share(values: np.ndarray) -> Any:
            return np.repeat(values[:, None], agents[1], axis=1)

        is_new: Any = now["present"] & (counts == 0)
        observation = Observation(now["features"], masks, share(now["present"]), is_new, counts)
        return Step(
            observation,
            share(now["rewards"]),
            share(now["terminal"]),
            share(now["truncated"]),
            now["state"],
            {"distance": now["distance"]},
        )

    def _blank(self) -> dict[str, np.ndarray]:
        """Answers of robots that have not begun: nobody is there, everything has ended."""
        count, spec = self.num_envs, self.spec
        return {
            "features": np.zeros((count, spec.num_agents, spec.observation_size), np.float32),
            "state": np.zeros((count, spec.state_size), np.float32),
            "rewards": np.zeros(count, np.float32),
            "distance": np.zeros(count, np.float32),
            "present": np.zeros(count, bool),
            "terminal": np.ones(count, bool),
            "truncated": np.zeros(count, bool),
        }

    @property
    def engine(self) -> Any:
        """The simulations themselves."""
        if self._engine is None:
            raise OryxError(f"environment '{self.name}' is closed; make another")
        return self._engine


def make(
    robot: str = "halfcheetah",
    agents: str = "6x1",
    view: str = VIEWS[0],
    obsk: int = 1,
    num_envs: int = NUM_ENVS,
    num_workers: int | None = None,
) -> Mamujoco:
    """Robots of these settings."""
    return Mamujoco(robot, agents, view, obsk, num_envs, num_workers)
