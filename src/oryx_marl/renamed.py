"""Names of version 0.1.0 and what they are called now, so that its runs, policies and flags work.

Names that datasets have on disk never changed, and do not stand here.
"""

from collections.abc import Mapping
from typing import Any

SETTINGS = {
    "target_rate": "tau",
    "act_on_average": "act_with_ema",
    "keep_going": "continue_on_divergence",
    "leave_out_bad_rows": "drop_invalid",
}
VALUES = {("objective", "clone"): "bc", ("cql_over", "legal"): "available"}
FLAGS = {
    "--trace": "--td-lambda",
    "--target-rate": "--tau",
    "--act-on-average": "--act-with-ema",
    "--no-act-on-average": "--no-act-with-ema",
    "--keep-going": "--continue-on-divergence",
    "--leave-out-bad-rows": "--drop-invalid",
    "--legal": "--action-mask",
    "--present": "--agent-mask",
}
ACTING = {"--greedy": ["--act", "greedy"], "--no-greedy": ["--act", "sampled"]}
"""Flags that became values of another, which takes several: they go to the end of the line, where
no other word is taken for one of them."""
OPTIONS = {"legal": "action_mask", "present": "agent_mask"}
"""Of importers, in mappings and in Python."""
METRICS = {"imitated_share": "valid_label_share"}
BRANCHES = {
    "world": "source_state",
    "memory": "recurrent_state",
    "legal": "action_mask",
    "present": "agent_mask",
}
"""Of trees of arrays: checkpoints, and steps that were recorded."""


def settings(values: Mapping[str, Any], online: bool) -> dict[str, Any]:
    """Settings of an algorithm or a training, nested ones included, by their names of today."""
    names = SETTINGS | {"trace": "gae_lambda" if online else "td_lambda"}
    return {
        names.get(name, name): settings(value, online)
        if isinstance(value, Mapping)
        else VALUES.get((name, value), value)
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }


def held_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """The scores in held_out.json by their names of today."""
    names = {"agreement": "action_accuracy", "guess": "baseline"}
    return {
        names.get(name, name): held_out(value) if name == "guess" else value
        for name, value in values.items()
    }


def branch(name: str) -> str:
    """The path of an array in a tree, such as world/memory/encoder."""
    return "/".join(BRANCHES.get(part, part) for part in name.split("/"))


def flags(words: list[str], online: bool) -> tuple[list[str], dict[str, str]]:
    """Arguments of a command line with the flags of today, and those that were renamed."""
    known = FLAGS | ({"--trace": "--gae-lambda"} if online else {})
    found, changed = [], {}
    last: list[str] = []
    for word in words:
        if word in ACTING:
            last, changed[word] = ACTING[word], " ".join(ACTING[word])
            continue
        flag, *value = word.split("=", 1)
        new = known.get(flag.replace("_", "-"))
        if new is not None:
            changed[flag] = new
        found.append("=".join([new or flag, *value]))
    return [*found, *last], changed
