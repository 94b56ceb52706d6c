"""The page of `oryx trust`: for people who know no reinforcement learning."""

from html import escape
from pathlib import Path
from typing import NamedTuple

from oryx_marl.ope.document import NAMES, Trust
from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.support import Support
from oryx_marl.report import document, numbers
from oryx_marl.report.document import count, pairs, section
from oryx_marl.report.results import TRUST_PAGE
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

FILE = TRUST_PAGE
MEANINGS = {
    "fqe": "networks learn from the logs what return follows each joint action, and are asked "
    "about the actions that the policy would take",
    "wdr": "the same, corrected by logged episodes in which was done what the policy would do",
    "wpdis": "logged episodes are weighted by how likely the policy would have acted as was logged",
    "pdis": "the same without weights that sum to 1: right on average, but it varies most",
}
PARTS = ("first", "second", "third", "last")


def write(folder: Path) -> Path:
    """The page of a run whose trust.json is there."""
    run = Run(folder)
    page = render(run.read(RunConfig), run.read(Trust))
    return document.write(page, folder / FILE)


def render(config: RunConfig, found: Trust) -> str:
    """The whole page as text."""
    title = f"Can {config.algorithm} on {config.dataset} be trusted?"
    body = "".join(
        [
            _headline(config, found),
            _estimates(found),
            _support(found),
            _agents(found),
            _seeds(found),
            _method(found),
        ]
    )
    return document.render(title, body)


def _headline(config: RunConfig, found: Trust) -> str:
    """The verdict, and why."""
    verdict = found.verdict.text[:1].upper() + found.verdict.text[1:]
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in found.verdict.reasons)
    return f"""<header>
<p class="eyebrow"><b>{escape(config.algorithm)}</b> learned from
<b>{escape(config.dataset)}</b>; judged by logs alone, without a simulator</p>
<h1><span class="value">{escape(verdict)}</span></h1>
<ul class="lead">{reasons}</ul>
</header>
"""


def _estimates(found: Trust) -> str:
    """What the policy would earn, beside what the logs earned."""
    rows = {"the logs": found.logged}
    rows |= {NAMES[name]: each for name, each in found.estimates.items()}
    scale = _Scale.of(list(rows.values()))
    listed = "".join(
        f"<li><b>{escape(name)}</b> <span>{_number(each)}</span>{_interval(each, scale)}"
        f"<p>{escape(_explain(name, each))}</p></li>"
        for name, each in rows.items()
    )
    text = (
        "The return is the sum of an episode's rewards (mean over agents, over "
        f"{count(found.horizon, 'step')} at most). The first line is what the logged episodes "
        "earned. The others are estimates, by different means, of what the policy would earn in "
        "their place; in brackets the range in which the true mean lies with 95%. Where the "
        "estimates agree, they can be trusted more."
    )
    ends = ""
    if scale is not None:
        low, high = numbers.together([scale.low, scale.high], extra=1)
        ends = f'<p class="quiet">Lines run from {low} to {high}; the dashes are the logs.</p>'
    body = f'{ends}<ul class="estimates" aria-label="Estimates">{listed}</ul>'
    return section("What it would earn", text, body)


class _Scale(NamedTuple):
    """Returns at the ends of the lines, and where the logs are."""

    low: float
    high: float
    logged: float

    @classmethod
    def of(cls, rows: list[Estimate]) -> "_Scale | None":
        """That of all intervals, a little longer; None where there is nothing to draw."""
        ends = [end for each in rows for end in (each.low, each.high) if end is not None]
        if rows[0].value is None or not ends or max(ends) <= min(ends):
            return None
        spare = 0.04 * (max(ends) - min(ends))
        return cls(min(ends) - spare, max(ends) + spare, rows[0].value)

    def place(self, value: float) -> float:
        """In percent of a line."""
        return 100 * (value - self.low) / (self.high - self.low)


def _interval(estimate: Estimate, scale: _Scale | None) -> str:
    """An estimate as a point and its interval; the number beside it says the same."""
    if scale is None or estimate.value is None or estimate.low is None or estimate.high is None:
        return ""
    low, value, high = map(scale.place, (estimate.low, estimate.value, estimate.high))
    return (
        f'<div class="interval" aria-hidden="true"><i style="left:{scale.place(scale.logged):.2f}%"'
        f' class="logs"></i><i style="left:{low:.2f}%;width:{high - low:.2f}%" class="range"></i>'
        f'<i style="left:{value:.2f}%" class="point"></i></div>'
    )


def _explain(name: str, estimate: Estimate) -> str:
    """How a number was found, and why there is none where there is none."""
    if name == "the logs":
        return "mean of the logged episodes"
    meaning = MEANINGS[next(key for key, told in NAMES.items() if told == name)]
    return meaning if estimate.value is not None else f"{meaning}; no number: {estimate.refused}"


def _number(estimate: Estimate) -> str:
    """A value and its interval."""
    if estimate.value is None:
        return "no number"
    if estimate.low is None or estimate.high is None:
        return numbers.one(estimate.value)
    value, low, high = numbers.together([estimate.value, estimate.low, estimate.high], extra=1)
    return f"{value} [{low}, {high}]"


def _support(found: Trust) -> str:
    """How far the policy leaves the logs."""
    outside = found.support
    text = (
        f"{outside.share:.1%} of the policy's decisions are ones that the logged behaviour takes "
        "in less than one of a hundred cases; in "
        f"{outside.joint_share:.1%} of the steps some agent's is. Nothing in the logs tells what "
        "follows them. The more there are, the less any estimate means."
    )
    facts = {agent: f"{share:.1%}" for agent, share in _by_agent(found, outside).items()}
    facts |= {
        f"{part} quarter of an episode": f"{share:.1%}"
        for part, share in zip(PARTS, outside.by_part, strict=True)
        if share is not None
    }
    return section("How far it leaves the logs", text, pairs(facts) + _unusual(found))


def _by_agent(found: Trust, outside: Support) -> dict[str, float]:
    return dict(zip(found.agents, outside.per_agent, strict=True))


def _unusual(found: Trust) -> str:
    """The joint actions to look at."""
    if not found.support.unusual:
        return '<p class="quiet">No joint action of the policy is unusual.</p>'
    rows = "".join(
        f'<tr><th scope="row">episode {numbers.one(each.episode)}, step {numbers.one(each.step)}'
        f"</th><td>{escape(_actions(each.actions))}</td><td>{escape(_actions(each.logged))}</td>"
        "</tr>"
        for each in found.support.unusual
    )
    return (
        '<p class="lead">The most unusual ones, to be looked at by someone who knows the task:</p>'
        '<div class="scroll"><table><thead><tr><th scope="col">where</th><th scope="col">the '
        'policy would do</th><th scope="col">was logged</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _actions(actions: list) -> str:
    return ", ".join("absent" if each is None else str(each) for each in actions)


def _agents(found: Trust) -> str:
    """Each agent's own return, where rewards are per agent."""
    if found.per_agent is None or found.logged_per_agent is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(agent)}</th><td>{numbers.one(logged)}</td>'
        f"<td>{numbers.one(value)}</td></tr>"
        for agent, logged, value in zip(
            found.agents, found.logged_per_agent, found.per_agent, strict=True
        )
    )
    table = (
        '<div class="scroll"><table><thead><tr><th scope="col">agent</th><th scope="col">the logs'
        f'</th><th scope="col">the policy</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return section("Agent by agent", "Return of each agent by itself.", table)


def _seeds(found: Trust) -> str:
    """Whether it is the method or luck."""
    if len(found.seeds) < 2:
        return ""
    facts = {f"seed {each.seed}": _number(each.estimates["fqe"]) for each in found.seeds}
    text = "The same training, repeated: seeds that differ much are a matter of luck."
    return section("Stability over seeds", text, pairs(facts))


def _method(found: Trust) -> str:
    """What was done, in numbers."""
    ess = min(each.effective_sample_size for each in found.seeds)
    facts = {
        "logged episodes used": numbers.one(found.episodes),
        "of them not learned from": numbers.one(found.held_out) if found.held_out else "none",
        "effective episodes of importance sampling": numbers.one(round(ess, 1)),
        "way of acting": found.act,
        "took": numbers.duration(found.seconds),
    }
    text = (
        "An estimate from logs is no experiment. Before the policy acts, let it run beside what "
        "acts now and compare, then try it on a small, safe share."
    )
    return section("How this was found", text, pairs(facts))
