"""Many simulations of one robot, stepped together on threads, bit-equal to one after another.

`mujoco.batch.Batch` does that; where contact forces are observed, one MjData per simulation in a
thread pool: gymnasium computes them after the step, from contacts that a batch does not hand out.
"""

import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from oryx_marl.envs import base
from oryx_marl.errors import OryxError

Ids = Int[np.ndarray, " K"]


@runtime_checkable
class Engine(Protocol):
    """E simulations; the arrays are those after the last call."""

    model: Any
    qpos: Float[np.ndarray, "E nq"]
    qvel: Float[np.ndarray, "E nv"]
    xpos: Float[np.ndarray, "E bodies 3"] | None
    """Places of the bodies, one step of the physics behind, as MuJoCo leaves them; None where
    nobody asks for them."""
    forces: Float[np.ndarray, "E bodies 6"] | None
    """External forces on the bodies, 0 after a reset; None where nobody asks for them."""

    def reset(
        self, ids: Ids, qpos: Float[np.ndarray, "K nq"], qvel: Float[np.ndarray, "K nv"]
    ) -> None:
        """Puts some simulations, in rising order, into these states."""
        ...

    def step(self, ids: Ids, controls: Float[np.ndarray, "K nu"], count: int) -> None:
        """Moves some simulations, in rising order, by so many steps of the physics."""
        ...

    def close(self) -> None: ...


def make_engine(model: Any, num_envs: int, num_threads: int | None, has_forces: bool) -> Engine:
    """Simulations of a model on so many threads, by default one per processor.

    With forces there are the places of the bodies too.
    """
    threads = max(1, min(num_envs, num_threads or os.cpu_count() or 1))
    if has_forces:
        return PoolEngine(model, num_envs, threads)
    return BatchEngine(model, num_envs, threads)


def load_model(file: str) -> Any:
    """One of the models that come with gymnasium."""
    mujoco: Any = base.optional("mujoco")
    found = importlib.util.find_spec("gymnasium")  # its files alone are needed
    if found is None or found.origin is None:
        base.optional("gymnasium")  # says how to install it
        raise AssertionError("gymnasium has no folder")
    path = Path(found.origin).parent / "envs" / "mujoco" / "assets" / file
    if not path.is_file():
        raise OryxError(f"the installed gymnasium has no {path}; the models of 1.0 and later do")
    with _quiet(mujoco):
        spec = mujoco.MjSpec.from_file(str(path))
        # MuJoCo 4 warns of settotalmass, into a file in the working directory; to scale afterwards
        # gives the same model.
        total, spec.compiler.settotalmass = spec.compiler.settotalmass, -1
        model = spec.compile()
        if total > 0:
            mujoco.mj_setTotalmass(model, total)
            mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class BatchEngine:
    """On `mujoco.batch.Batch`, without what must be copied out after each step."""

    xpos: Float[np.ndarray, "E bodies 3"] | None = None
    forces: Float[np.ndarray, "E bodies 6"] | None = None

    def __init__(self, model: Any, num_envs: int, num_threads: int) -> None:
        self._mujoco: Any = base.optional("mujoco")
        self.model = model
        self._batch = _find_batch().Batch(model, num_envs, num_threads)
        self.qpos, self.qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._controls = self._batch.bind("ctrl")

    def reset(
        self, ids: Ids, qpos: Float[np.ndarray, "K nq"], qvel: Float[np.ndarray, "K nv"]
    ) -> None:
        with _quiet(self._mujoco):
            self._batch.reset(ids, stage=self._mujoco.mjtStage.mjSTAGE_NONE.value)
            self.qpos[ids], self.qvel[ids] = qpos, qvel
            self._batch.forward(ids)

    def step(self, ids: Ids, controls: Float[np.ndarray, "K nu"], count: int) -> None:
        self._controls[ids] = controls
        everyone = len(ids) == len(self._controls)  # who need not be looked up
        with _quiet(self._mujoco):
            self._batch.step(None if everyone else ids, nstep=count)

    def close(self) -> None:
        """Its threads end with it."""


class PoolEngine:
    """One MjData for each simulation, with the forces after each step as gymnasium has them."""

    def __init__(self, model: Any, num_envs: int, num_threads: int) -> None:
        self._mujoco: Any = base.optional("mujoco")
        self.model = model
        self._data = [self._mujoco.MjData(model) for _ in range(num_envs)]
        self._num_threads = num_threads
        self._pool = ThreadPoolExecutor(num_threads) if num_threads > 1 else None
        self.qpos = np.zeros((num_envs, model.nq))
        self.qvel = np.zeros((num_envs, model.nv))
        self._xpos = np.zeros((num_envs, model.nbody, 3))
        self.xpos: Float[np.ndarray, "E bodies 3"] | None = self._xpos
        self._forces = np.zeros((num_envs, model.nbody, 6))
        self.forces: Float[np.ndarray, "E bodies 6"] | None = self._forces

    def reset(
        self, ids: Ids, qpos: Float[np.ndarray, "K nq"], qvel: Float[np.ndarray, "K nv"]
    ) -> None:
        with _quiet(self._mujoco):
            for place, index in enumerate(ids.tolist()):
                data = self._data[index]
                self._mujoco.mj_resetData(self.model, data)
                data.qpos[:], data.qvel[:] = qpos[place], qvel[place]
                self._mujoco.mj_forward(self.model, data)
                self._copy(index, data)

    def step(self, ids: Ids, controls: Float[np.ndarray, "K nu"], count: int) -> None:
        def work(places: np.ndarray) -> None:
            for place in places:
                index = int(ids[place])
                data = self._data[index]
                data.ctrl[:] = controls[place]
                self._mujoco.mj_step(self.model, data, nstep=count)
                self._mujoco.mj_rnePostConstraint(self.model, data)
                self._copy(index, data)

        with _quiet(self._mujoco):
            if self._pool is None:
                work(np.arange(len(ids)))
            else:
                list(self._pool.map(work, np.array_split(np.arange(len(ids)), self._num_threads)))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _copy(self, index: int, data: Any) -> None:
        self.qpos[index], self.qvel[index] = data.qpos, data.qvel
        self._xpos[index], self._forces[index] = data.xpos, data.cfrc_ext


def _find_batch() -> Any:
    mujoco: Any = base.optional("mujoco")
    try:
        return base.optional("mujoco.batch")
    except OryxError as error:
        raise OryxError(
            f"the installed mujoco {mujoco.__version__} steps no simulations together; it must be "
            "4.0 or later"
        ) from error


@contextmanager
def _quiet(mujoco: Any) -> Iterator[None]:
    """No warning of MuJoCo's is written into the working directory, as it does by default.

    The handler belongs to the process, so one of the user's is put back, and used all the while.
    """
    before = mujoco.get_mju_user_warning()
    if before is not None:
        yield
        return
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)
