"""Acts with policies that oryx-marl has exported, with numpy and onnxruntime alone.

import oryx_marl_runtime

player = oryx_marl_runtime.load("export/onnx")
actions = player.act(observations, action_mask)
"""

from oryx_marl_runtime.contract import ActionSpace, Contract, Spec
from oryx_marl_runtime.errors import OryxError
from oryx_marl_runtime.player import Player, load
from oryx_marl_runtime.step import Step, Stepped, load_step

__version__ = "0.2.0.dev0"

__all__ = [
    "ActionSpace",
    "Contract",
    "OryxError",
    "Player",
    "Spec",
    "Step",
    "Stepped",
    "load",
    "load_step",
]
