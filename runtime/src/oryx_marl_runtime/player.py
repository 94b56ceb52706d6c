"""An exported policy in plain Python: shown what the agents see, it says what they do."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl_runtime.contract import Spec
from oryx_marl_runtime.errors import OryxError
from oryx_marl_runtime.step import Step, load_step

PerAgent = Mapping[str, Any] | Sequence[Any] | np.ndarray
"""One entry for each agent: by name, or in the order of `Player.spec.agents`."""
TEMPERATURES = {"sampled": 1.0, "greedy": 0.0}
HIGHEST = 1000.0


class Player:
    """Acts step by step and remembers, until `reset`, what it has seen and done.

    One Player plays one episode at a time; several may share a Step.

    Attributes:
        spec: `spec.agents` are the names of the agents in their order, `spec.observation_sizes`
            their numbers of features.
        action_names: what each action is called, in the order of the ids; None if nobody says.

    Args:
        step: the exported policy.
        act: "sampled", "greedy" (always the likeliest action), or a temperature such as 0.25;
            default: sampled, of continuous actions greedy (the mode).
        random_seed: the same number gives the same sequence of episodes.
    """

    def __init__(self, step: Step, act: str | float | None = None, random_seed: int = 0) -> None:
        if isinstance(random_seed, bool) or not isinstance(random_seed, int) or random_seed < 0:
            raise OryxError(f"random_seed must be a whole number from 0 on, got {random_seed!r}")
        self.spec: Spec = step.contract.spec
        self.action_names: list[str] | None = step.contract.action_names
        if act is None:
            act = "greedy" if self.spec.action.kind == "box" else "sampled"
        self._step, self._temperature, self._act = step, temperature_of(act), act
        self._random_seed = random_seed
        self._state, self._count, self._episode = step.init(1), 0, 0

    def __repr__(self) -> str:
        policy = self._step.contract.policy
        agents = f"{self.spec.num_agents} agents"
        return f"Player({policy['algorithm']!r}, {agents}, seed {policy['seed']}, {self._act})"

    def reset(self) -> None:
        """Begins the next episode: nothing is remembered, and other random numbers are drawn."""
        self._episode += self._count > 0
        self._state, self._count = self._step.init(1), 0

    def act(
        self,
        observations: PerAgent,
        action_mask: PerAgent | None = None,
        rewards: PerAgent | None = None,
        *,
        noise: np.ndarray | None = None,
    ) -> Any:
        """The action of each agent, by name if the observations are by name.

        Args:
            observations: features of each agent, or {"observation": features, "action_mask": mask}.
                Agents that are not named, or whose observation is None, are absent.
            action_mask: which actions each agent may take (default: the mask beside its
                observation, else all).
            rewards: of the step before, which some policies want to know.
            noise: standard noise [agents, actions] in place of that drawn here.

        Returns:
            Actions [agents], numpy integers, or [agents, dimensions] floats of a box; by name a
            dict of those agents that are present.
        """
        shown, here = self._read(observations, action_mask, rewards)
        scaled = np.float32(self._temperature) * self._noise(noise)
        stepped = self._step(
            self._state,
            **{name: value[None] for name, value in shown.items()},
            agent_mask=here[None],
            reset=np.array([self._count == 0]),
            step_count=np.array([self._count]),
            noise=scaled,
        )
        self._state = stepped.state
        self._count += 1
        chosen = stepped.actions[0]
        if not isinstance(observations, Mapping):
            return chosen
        pairs = zip(self.spec.agents, chosen, here, strict=True)
        return {name: action for name, action, is_here in pairs if is_here}

    def _noise(self, given: np.ndarray | None) -> np.ndarray:
        """Standard noise [1, agents, actions] of this step of this episode."""
        if given is None:
            rng = np.random.default_rng([self._random_seed, self._episode, self._count])
            return self._step.draw_noise(rng, 1)
        noise, shape = np.asarray(given, np.float32), (self.spec.num_agents, self.spec.action.size)
        if noise.shape != shape:
            raise OryxError(f"noise must have shape {shape}, got {noise.shape}")
        return noise[None]

    def _read(
        self, observations: PerAgent, action_mask: PerAgent | None, rewards: PerAgent | None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """What is shown of all agents as arrays, and which of them are there."""
        seen, masks = self._split(self._by_agent(observations, "observations"))
        for agent, mask in enumerate(self._by_agent(action_mask, "action_mask")):
            masks[agent] = masks[agent] if mask is None else mask
        here = np.array([each is not None for each in seen])
        features = np.stack([self._features(*pair) for pair in enumerate(seen)])
        allowed = np.stack(
            [self._mask(*pair) if here[pair[0]] else self._all() for pair in enumerate(masks)]
        )
        told = [each or 0.0 for each in self._by_agent(rewards, "rewards")]
        last = np.array([float(each) for each in told], np.float32)
        return {"features": features, "action_mask": allowed, "last_rewards": last}, here

    def _by_agent(self, values: PerAgent | None, what: str) -> list[Any]:
        """One entry per agent, None for those of whom nothing is said."""
        agents = self.spec.agents
        if values is None:
            return [None] * len(agents)
        if isinstance(values, Mapping):
            if unknown := sorted(set(values) - set(agents)):
                raise OryxError(f"{what}: there is no agent {unknown}, only {list(agents)}")
            return [values.get(name) for name in agents]
        if len(values) != len(agents):
            raise OryxError(
                f"{what} must have one entry for each of {len(agents)} agents, got {len(values)}"
            )
        return list(values)

    def _split(self, seen: list[Any]) -> tuple[list[Any], list[Any]]:
        """Features and masks, where PettingZoo shows them together."""
        features, masks = list(seen), [None] * len(seen)
        for agent, each in enumerate(seen):
            if not isinstance(each, Mapping):
                continue
            if "observation" not in each:
                raise OryxError(
                    f"the observation of {self.spec.agents[agent]} is a dict with {sorted(each)}; "
                    'its features must stand under "observation", and may have an "action_mask" '
                    "beside them"
                )
            features[agent], masks[agent] = each["observation"], each.get("action_mask")
        return features, masks

    def _features(self, agent: int, values: Any) -> np.ndarray:
        """Features of an agent, filled up with zeros; of an absent one zeros alone."""
        padded, name = np.zeros(self.spec.observation_size, np.float32), self.spec.agents[agent]
        given = np.zeros(len(padded), np.float32) if values is None else np.asarray(values, "f4")
        own = self.spec.observation_sizes[agent]
        if given.ndim != 1 or len(given) not in (own, len(padded)):
            raise OryxError(
                f"the observation of {name} must have {own} numbers, got shape {given.shape}"
            )
        if not np.isfinite(given).all():
            raise OryxError(
                f"the observation of {name} has numbers that are not finite: {given.tolist()}"
            )
        padded[: len(given)] = given
        return padded

    def _mask(self, agent: int, values: Any) -> np.ndarray:
        """The actions that an agent may take."""
        if values is None:
            return self._all()
        mask, name = np.asarray(values, bool), self.spec.agents[agent]
        if self.spec.action.kind == "box":
            raise OryxError(f"action_mask of {name}: actions of a box have no mask")
        if mask.shape != (self.spec.action.size,):
            raise OryxError(
                f"action_mask of {name} must have {self.spec.action.size} entries, "
                f"got shape {mask.shape}"
            )
        if not mask.any():
            raise OryxError(f"action_mask of {name} allows no action at all")
        return mask

    def _all(self) -> np.ndarray:
        return np.ones(self.spec.action.size, bool)


def temperature_of(act: str | float) -> float:
    """The temperature of a way of acting; raises if it is none."""
    try:
        found = TEMPERATURES[act] if isinstance(act, str) and act in TEMPERATURES else float(act)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(act, bool) or not 0 <= found <= HIGHEST:
        raise OryxError(
            f"act must be sampled, greedy or a temperature from 0 (greedy) to {HIGHEST:g}, such as "
            f"0.25 (1 is sampled); got {act!r}"
        )
    return found


def load(
    folder: str | Path,
    *,
    act: str | float | None = None,
    random_seed: int = 0,
    threads: int = 1,
    providers: Sequence[str] | None = None,
) -> Player:
    """The exported policy in a folder, to act with step by step.

    Args:
        folder: what `oryx export RUN --format onnx` wrote.
        act: "sampled", "greedy" (always the likeliest action), or a temperature between them;
            default: sampled, of continuous actions greedy (the mode).
        random_seed: the sequence of episodes that are sampled is the same for the same number.
        threads: of onnxruntime.
        providers: of onnxruntime (default: the CPU's).
    """
    return Player(load_step(folder, threads, providers), act, random_seed)
