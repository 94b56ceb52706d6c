"""One step of a policy over a batch, as the contract has it: nothing is kept, nothing is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from oryx_marl_runtime.contract import Contract, Input, read_contract
from oryx_marl_runtime.errors import OryxError

State = dict[str, np.ndarray]
"""Parts of the recurrent state by name, [batch, ...] each."""


class Stepped(NamedTuple):
    """What a step gives."""

    actions: np.ndarray
    """[batch, agents] int32, or [batch, agents, dimensions] float32 of a box."""
    state: State
    """For the next step."""
    told: dict[str, np.ndarray]
    """What the policy says of its actions, such as `log_probs`."""


class Step:
    """Calls the exported file; one may be shared by many episodes and threads."""

    def __init__(
        self, contract: Contract, threads: int = 1, providers: Sequence[str] | None = None
    ) -> None:
        self.contract = contract
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        chosen = list(providers or ["CPUExecutionProvider"])
        try:
            self._session = onnxruntime.InferenceSession(contract.model, options, providers=chosen)
        except Exception as error:  # the library has no common class of its errors
            raise OryxError(f"onnxruntime cannot load this policy: {error!s:.300}") from error
        self._fields = {each.name: each for each in contract.inputs if each.next is None}
        self._state = {each.name: each for each in contract.inputs if each.next is not None}

    def init(self, batch: int) -> State:
        """The state before the first step."""
        return {
            name: np.broadcast_to(np.asarray(each.initial, each.dtype), (batch, *each.shape)).copy()
            for name, each in self._state.items()
        }

    def __call__(
        self,
        state: Mapping[str, np.ndarray],
        features: np.ndarray,
        action_mask: np.ndarray | None = None,
        agent_mask: np.ndarray | None = None,
        reset: np.ndarray | None = None,
        step_count: np.ndarray | None = None,
        last_rewards: np.ndarray | None = None,
        noise: np.ndarray | None = None,
    ) -> Stepped:
        """Actions of a batch of episodes.

        Args:
            state: that of `init`, or of the step before.
            features: [batch, agents, features], zeros where an agent has fewer or is absent.
            action_mask: [batch, agents, actions] bool (default: all actions).
            agent_mask: [batch, agents] bool, the agents that are there (default: all).
            reset: [batch] bool, whether an episode begins here (default: none does).
            step_count: [batch] steps since then (default: 0).
            last_rewards: [batch, agents] rewards of the step before (default: 0).
            noise: standard noise to sample, times a temperature to act at it (default: none, which
                is greedy); `draw_noise` draws it.
        """
        batch = np.shape(features)[0] if np.ndim(features) else 0
        given = {
            "features": features,
            "action_mask": action_mask,
            "agent_mask": agent_mask,
            "reset": reset,
            "step_count": step_count,
            "last_rewards": last_rewards,
            "noise": noise,
        }
        feeds = {name: _to_array(each, given[name], batch) for name, each in self._fields.items()}
        feeds |= {
            name: _to_array(each, state.get(name), batch) for name, each in self._state.items()
        }
        names = self.contract.outputs
        found = dict(zip(names, self._session.run(list(names), feeds), strict=True))
        after = {name: found.pop(str(each.next)) for name, each in self._state.items()}
        return Stepped(found.pop("actions"), after, found)

    def draw_noise(self, rng: np.random.Generator, batch: int) -> np.ndarray:
        """Standard noise of the kind that this policy takes."""
        size = (batch, *self._fields["noise"].shape)
        drawn = rng.gumbel(size=size) if self.contract.noise == "gumbel" else rng.normal(size=size)
        return drawn.astype(np.float32)


def _to_array(entry: Input, value: Any, batch: int) -> np.ndarray:
    """What is fed for an input; where nothing is said of it, its default."""
    shape = (batch, *entry.shape)
    if value is None and entry.next is None:
        return np.full(shape, entry.name.endswith("_mask"), entry.dtype)
    if value is None:
        raise OryxError(f"the state has no {entry.name!r}; take that of `init` or of the last step")
    array = np.ascontiguousarray(value, entry.dtype)
    if array.shape != shape:
        raise OryxError(f"{entry.name} must have shape {shape}, got {array.shape}")
    return array


def load_step(folder: str | Path, threads: int = 1, providers: Sequence[str] | None = None) -> Step:
    """The step of an exported policy.

    Args:
        folder: what `oryx export` wrote.
        threads: of onnxruntime; policies are small, so more rarely help.
        providers: of onnxruntime, such as CUDAExecutionProvider (default: the CPU's).
    """
    return Step(read_contract(folder), threads, providers)
