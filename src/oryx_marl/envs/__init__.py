"""Where logs come from: one file per family of environments."""

from typing import Any

from oryx_marl.envs import base


def to_pettingzoo(env: base.Env | str, render_mode: str | None = None) -> Any:
    """An environment, or the one of a name, as a `pettingzoo.ParallelEnv`.

    `render_mode` is None, "rgb_array" or "ansi".
    """
    base.optional("pettingzoo")
    adapter: Any = base.optional("oryx_marl.envs.adapters.to_pettingzoo")
    return adapter.PettingZoo(base.make_named(env) if isinstance(env, str) else env, render_mode)
