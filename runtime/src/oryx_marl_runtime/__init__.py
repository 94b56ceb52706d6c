"""Acts with policies that oryx-marl has exported, with numpy and onnxruntime alone, or serves.

import oryx_marl_runtime

player = oryx_marl_runtime.load("export/onnx")              # in this process
player = oryx_marl_runtime.connect("http://127.0.0.1:8000")  # of `oryx serve`
actions = player.act(observations, action_mask)
"""

import importlib
from typing import TYPE_CHECKING, Any

from oryx_marl_runtime.client import RemotePlayer, SessionLostError, connect
from oryx_marl_runtime.contract import ActionSpace, Contract, Spec
from oryx_marl_runtime.errors import OryxError

if TYPE_CHECKING:  # clients of a server need no onnxruntime, which takes a second to import
    from oryx_marl_runtime.player import Player, load
    from oryx_marl_runtime.step import Step, Stepped, load_step

__version__ = "0.2.0.dev0"

__all__ = [
    "ActionSpace",
    "Contract",
    "OryxError",
    "Player",
    "RemotePlayer",
    "SessionLostError",
    "Spec",
    "Step",
    "Stepped",
    "connect",
    "load",
    "load_step",
]
LATER = {
    "Player": "player",
    "load": "player",
    "Step": "step",
    "Stepped": "step",
    "load_step": "step",
}
"""Names whose modules need numpy and onnxruntime, and are imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{LATER[name]}"), name)
