"""The command `oryx trust`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tyro
from rich.table import Table

from oryx_marl import trusting
from oryx_marl.cli.console import console, default_is, errors, print_json, say
from oryx_marl.errors import OryxError
from oryx_marl.ope.document import NAMES, Trust
from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.policy.acting import Act, temperature_of
from oryx_marl.report.trust_page import FILE

Runs: TypeAlias = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
MOST_LISTED = 5
"""Unusual joint actions that are printed; the page has more."""


@dataclass(frozen=True)
class TrustCommand:
    """Estimate what policies are worth from logs alone, without a simulator; several are ranked."""

    runs: Runs
    """Folders of runs."""
    data: Annotated[str | None, default_is("that of each run")] = None
    """Logs to evaluate on: name or folder of a dataset."""
    act: Annotated[Act | None, default_is("sampled; of continuous actions greedy")] = None
    """How the policies act: sampled, greedy, or a temperature between them such as 0.25."""
    which: Literal["last", "best"] = "last"
    """The last weights, or those of the best evaluation while training."""
    settings: OpeSettings = field(default_factory=OpeSettings)
    """How much work goes into it."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise OryxError("name at least one run, such as runs/oryx-depot")
        if self.act is not None:
            temperature_of(self.act)  # refuses what is no way of acting

    def run(self) -> None:
        found = trusting.trust_all(
            self.runs, self.data, self.act, self.which, replace(self.settings), errors
        )
        named = zip(map(str, self.runs), found, strict=True)
        ranked = sorted(named, key=lambda entry: trusting.place(entry[1]))
        if self.json:
            print_json([{"run": name, **each.to_json()} for name, each in ranked])
            return
        if len(ranked) > 1:
            _show_ranking(ranked)
        else:
            show(ranked[0][1])
        for name, _ in ranked:
            console.print(f"page: {Path(name) / FILE}", soft_wrap=True)
        name, best = ranked[0]
        say(best.verdict.text if len(ranked) == 1 else f"first: {name}, {best.verdict.text}")


def show(found: Trust) -> None:
    """One run: the estimates beside the logs, and how far it leaves them."""
    held = f"{found.held_out:,} held-out" if found.held_out else "no held-out"
    title = f"return over {found.horizon:,} steps, from {found.episodes:,} episodes ({held})"
    table = Table("", "estimate [95%]", title=title)
    table.add_row("the logs", tell(found.logged))
    for name, estimate in found.estimates.items():
        table.add_row(f"policy, {NAMES[name]}", tell(estimate))
    console.print(table)
    outside = found.support
    say(
        f"outside of the logs: {outside.share:.1%} of the policy's decisions, "
        f"{outside.joint_share:.1%} of the steps"
    )
    for each in outside.unusual[:MOST_LISTED] if outside.share > 0 else []:
        say(f"  episode {each.episode}, step {each.step}: {each.actions} (logged: {each.logged})")
    if len(found.seeds) > 1:
        values = " ".join(_number(seed.estimates["fqe"].value) for seed in found.seeds)
        say(f"by seed: {values}")
    for reason in found.verdict.reasons:
        say(f"- {reason}")


def tell(estimate: Estimate) -> str:
    """A value with its interval, or why there is none."""
    if estimate.value is None:
        return f"none: {estimate.refused}"
    if estimate.low is None or estimate.high is None:
        return _number(estimate.value)
    low, high = _number(estimate.low), _number(estimate.high)
    return f"{_number(estimate.value)} [{low}, {high}]"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _show_ranking(ranked: list[tuple[str, Trust]]) -> None:
    table = Table("run", "return [95%]", "the logs", "outside of the logs", "verdict")
    rows: list[list[Any]] = [
        [
            name,
            tell(each.value),
            tell(each.logged),
            f"{each.support.share:.1%}",
            each.verdict.text,
        ]
        for name, each in ranked
    ]
    for row in rows:
        table.add_row(*row)
    console.print(table)
