"""What the agents of a robot see, as places in its state.

`gymnasium`: as gymnasium-robotics with `agent_obsk`: the joints at distance 0, 1, ... from an
agent's own, those of equal distance by name; of its own joints position, velocity and, where there
are any, contact forces, of the others the position; then position and velocity of the root.

`omar`: its own joints alone, as in OMAR's datasets.

`omiga`: the whole state and a one-hot id, less the mean and divided by the standard deviation of
these very numbers, as in OMIGA's datasets; the global state is that of agent 0.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from oryx_marl.envs._mamujoco_robots import Robot

FORCE = 6
"""Numbers of the force on a body: torque and force."""


class Layout(NamedTuple):
    """Where things are in the model and in the state `(positions, velocities, forces)`."""

    positions: Mapping[str, int]
    """Place in qpos of each joint."""
    velocities: Mapping[str, int]
    """Place in qvel of each joint."""
    num_positions: int
    """Those of the state: hidden ones are not among them."""
    num_velocities: int
    num_hidden: int

    def position(self, place: int) -> int:
        """Place in the state of one in qpos."""
        return place - self.num_hidden

    def velocity(self, place: int) -> int:
        return self.num_positions + place

    def forces(self, body: int) -> range:
        """The world, body 0, is not in the state."""
        first = self.num_positions + self.num_velocities + FORCE * (body - 1)
        return range(first, first + FORCE)


def read_layout(model: Any, robot: Robot) -> Layout:
    """From a MuJoCo model."""
    joints = {model.joint(number).name: number for number in range(model.njnt)}
    return Layout(
        {name: int(model.jnt_qposadr[number]) for name, number in joints.items()},
        {name: int(model.jnt_dofadr[number]) for name, number in joints.items()},
        model.nq - robot.num_hidden,
        model.nv,
        robot.num_hidden,
    )


def find_places(
    robot: Robot, layout: Layout, own: tuple[str, ...], obsk: int, has_root: bool = True
) -> Int[np.ndarray, " O"]:
    """Where in the state the numbers stand that the agent of these joints sees."""
    found: list[int] = []
    seen_bodies: set[int] = set()
    for distance, joints in enumerate(_by_distance(robot.edges, own, obsk)):
        for joint in sorted(joints):
            found.append(layout.position(layout.positions[joint]))
            if distance:
                continue
            dofs = robot.joint_velocities.get(joint, (layout.velocities[joint],))
            found += map(layout.velocity, dofs)
            for body in robot.joint_bodies.get(joint, ()):
                if body not in seen_bodies:
                    found += layout.forces(body)
                    seen_bodies.add(body)
    if has_root:
        found += map(layout.position, robot.root_positions)
        found += map(layout.velocity, robot.root_velocities)
    return np.array(found)


def normalise(state: Float[np.ndarray, "E O"], num_agents: int) -> Float[np.ndarray, "E N D"]:
    """OMIGA's view: state and id, each vector standardised by itself."""
    ids = np.broadcast_to(np.eye(num_agents), (len(state), num_agents, num_agents))
    states = np.broadcast_to(state[:, None], (len(state), num_agents, state.shape[1]))
    whole = np.concatenate([states, ids], axis=-1)
    return (whole - whole.mean(axis=-1, keepdims=True)) / whole.std(axis=-1, keepdims=True)


def denormalise(view: Float[np.ndarray, "R D"], agent: int, num_agents: int) -> np.ndarray:
    """The state behind OMIGA's view of an agent, [R, D - N]: its id is known to be 0s and a 1.

    That gives back mean and deviation: the 0s are at -mean/std, the 1 at (1 - mean)/std.
    """
    ids = view[:, -num_agents:].astype(np.float64)
    one = ids[:, agent]
    zero = np.delete(ids, agent, axis=1).mean(axis=1)
    scale = 1.0 / (one - zero)
    return (view[:, :-num_agents] - zero[:, None]) * scale[:, None]


def _by_distance(
    edges: Iterable[tuple[str, ...]], own: tuple[str, ...], obsk: int
) -> list[set[str]]:
    """Joints at distance 0, 1, ..., `obsk` from an agent's own."""
    known, rings = set(own), [set(own)]
    for _ in range(obsk):
        touched = [joint for edge in edges if rings[-1] & set(edge) for joint in edge]
        rings.append(set(touched) - known)
        known |= rings[-1]
    return rings
