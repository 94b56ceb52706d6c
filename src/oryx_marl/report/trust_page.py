"""The page of `oryx trust`: for people who know no reinforcement learning."""

from html import escape
from pathlib import Path

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
WIDTH, HEIGHT, MARGIN = 720, 34, 150
"""Of the chart, each of its lines, and the names beside them."""


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
    table = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{_cell(each)}</td>'
        f'<td class="list">{escape(_meaning(name))}</td></tr>'
        for name, each in rows.items()
    )
    text = (
        "The return is the sum of an episode's rewards (mean over agents, over "
        f"{count(found.horizon, 'step')} at most). The first line is what the logged episodes "
        "earned. The others are estimates, by different means, of what the policy would earn in "
        "their place; in brackets the range in which the true mean lies with 95%. Where the "
        "estimates agree, they can be trusted more."
    )
    body = (
        f'{_chart(rows)}<div class="scroll"><table class="results"><thead><tr>'
        '<th scope="col"></th><th scope="col">return [95%]</th><th scope="col">how</th></tr>'
        f"</thead><tbody>{table}</tbody></table></div>"
    )
    return section("What it would earn", text, body)


def _meaning(name: str) -> str:
    if name == "the logs":
        return "mean of the logged episodes"
    return MEANINGS[next(key for key, told in NAMES.items() if told == name)]


def _cell(estimate: Estimate) -> str:
    if estimate.value is None:
        return escape(f"no number: {estimate.refused}")
    if estimate.low is None or estimate.high is None:
        return numbers.one(estimate.value)
    value, low, high = numbers.together([estimate.value, estimate.low, estimate.high], extra=1)
    return f"{value} [{low}, {high}]"


def _chart(rows: dict[str, Estimate]) -> str:
    """Every estimate as a point with its interval, on one scale."""
    known = {
        name: (each.low, each.value, each.high)
        for name, each in rows.items()
        if each.value is not None and each.low is not None and each.high is not None
    }
    if not known:
        return ""
    low = min(each[0] for each in known.values())
    high = max(each[2] for each in known.values())
    if high <= low:
        return ""

    def place(value: float) -> float:
        return 1.6 * MARGIN + (WIDTH - 1.7 * MARGIN) * (value - low) / (high - low)

    lines = []
    for number, (name, (least, value, most)) in enumerate(known.items()):
        y = HEIGHT * (number + 0.5)
        lines.append(
            f'<text x="0" y="{y + 4:.0f}" fill="currentColor" font-size="13">{escape(name)}</text>'
            f'<line x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{y:.0f}" y2="{y:.0f}" '
            'stroke="currentColor" stroke-width="2" opacity="0.6"/>'
            f'<circle cx="{place(value):.1f}" cy="{y:.0f}" r="5" fill="currentColor"/>'
        )
    logged = known.get("the logs")
    mark = ""
    if logged is not None:
        x = place(logged[1])
        mark = (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT * len(known)}" '
            'stroke="currentColor" stroke-dasharray="3 4" opacity="0.4"/>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT * len(known)}" role="img" width="100%" '
        f'aria-label="Estimates with their intervals">{mark}{"".join(lines)}</svg>'
    )


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
        return '<p class="quiet">There is none.</p>'
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
    facts = {f"seed {each.seed}": _cell(each.estimates["fqe"]) for each in found.seeds}
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
