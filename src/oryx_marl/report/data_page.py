"""One self-contained page about datasets: what they hold, what they cover, what is wrong."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from oryx_marl.data.quality.issues import Finding
from oryx_marl.report import charts, document, numbers
from oryx_marl.report.document import legend, pairs, section

MOST_AGENTS = 12
"""Agents whose actions are drawn; the table has all."""
MOST_FEATURES = 400

About = Mapping[str, Any]
"""What `explore` found."""


def render(datasets: Sequence[tuple[About, Sequence[Finding]]]) -> str:
    """The page of some datasets, with what was found in each."""
    names = [about["name"] for about, _ in datasets]
    parts = [_head(names), _compare([about for about, _ in datasets])]
    for about, findings in datasets:
        parts.append(_dataset(about, findings, is_alone=len(datasets) == 1))
    return document.render(", ".join(names), "\n".join(parts))


def _head(names: list[str]) -> str:
    title = escape(", ".join(names))
    return f'<header><p class="eyebrow">What is in</p><h1 class="names">{title}</h1></header>'


def _compare(abouts: list[About]) -> str:
    """How returns are spread, side by side."""
    shapes = {
        about["name"]: (np.array(about["density"]["values"]), np.array(about["density"]["density"]))
        for about in abouts
    }
    if not any(values.size for values, _ in shapes.values()):
        return ""
    text = "How the returns of the episodes are spread; a shape is wide where many lie."
    rows = []
    for about in abouts:
        figures = [_text(about["returns"][key]) for key in ("mean", "std", "min", "max")]
        rows.append([about["name"], numbers.one(about["episodes"]), *figures])
    table = _table(["dataset", "episodes", "mean", "std", "least", "largest"], rows)
    return section("Returns", text, charts.violins(shapes) + table)


def _dataset(about: About, findings: Sequence[Finding], is_alone: bool) -> str:
    """All about one dataset."""
    name = "" if is_alone else f" of {escape(about['name'])}"
    return "".join(
        [
            _facts(about, name),
            _histograms(about, name),
            _actions(about, name),
            _features(about, name),
            _findings(findings, name),
        ]
    )


def _facts(about: About, name: str) -> str:
    coverage, entropy, endings = about["coverage"], about["entropy"], about["endings"]
    pairs_found = numbers.one(coverage["distinct_pairs"])
    if coverage.get("is_estimate"):
        pairs_found = f"about {pairs_found} (estimated from a sample)"
    facts = {
        "transitions": numbers.one(about["transitions"]),
        "episodes": numbers.one(about["episodes"]),
        "agents": numbers.one(len(about["agents"])),
        "features": numbers.one(about["observation_width"]),
        "actions": f"{about['actions']['size']} ({about['actions']['kind']})",
        "end by terminal": f"{endings['terminal']:.1%}",
        "end by truncation": f"{endings['truncated']:.1%}",
        "end by neither": f"{endings['neither']:.1%}",
        f"coverage (SACo, {coverage['state']})": numbers.one(coverage["joint_saco"]),
        "distinct state-action pairs": pairs_found,
    }
    if entropy is not None:
        mean = float(np.mean(list(entropy["bits"].values())))
        facts["entropy of actions, mean over agents"] = f"{mean:.2f} of {entropy['most']:.2f} bits"
        facts["if legal actions were chosen evenly"] = f"{entropy['choice']:.2f} bits"
    text = (
        "Coverage is the number of distinct pairs of joint state and joint action over the number "
        "of transitions: 1 means that nothing was tried twice."
    )
    mark = f'<p class="quiet">Fingerprint <code>{escape(about["fingerprint"])}</code></p>'
    return section(f"Size and coverage{name}", text, pairs(facts) + mark)


def _histograms(about: About, name: str) -> str:
    """Returns and lengths."""
    parts = []
    mean = about["returns"]["mean"]
    if mean is not None:
        edges, counts = _histogram(about["histogram"])
        parts.append(legend([("level", f"mean {numbers.one(mean)}")]))
        parts.append(charts.histogram(edges, counts, {"level": mean}))
    edges, counts = _histogram(about["length_histogram"])
    parts.append(charts.histogram(edges, counts, {}, "steps of an episode"))
    return section(f"Episodes{name}", "Returns and lengths.", "".join(parts))


def _actions(about: About, name: str) -> str:
    """How often each agent took each action, or the ranges of a box."""
    if about["action_counts"] is None:
        chart = _ranges(about["action_ranges"], "dimension of an action")
        return section(
            f"Actions{name}", "Range and mean of each dimension, over all agents.", chart
        )
    size = about["actions"]["size"]
    edges = np.arange(size + 1) - 0.5
    figures = []
    for agent, counts in zip(about["agents"][:MOST_AGENTS], about["action_counts"], strict=False):
        bits = about["entropy"]["bits"][agent]
        chart = charts.histogram(edges, np.array(counts, float), {}, "", "choices", "small")
        figures.append(
            f"<figure><figcaption><span>{escape(agent)}</span><b>{bits:.2f} bits</b></figcaption>"
            f"{chart}</figure>"
        )
    text = "How often each agent took each action, and the entropy of that in bits."
    if len(about["agents"]) > MOST_AGENTS:
        text += f" The first {MOST_AGENTS} of {len(about['agents'])} agents are drawn."
    rows = [
        [agent, *map(numbers.one, counts)]
        for agent, counts in zip(about["agents"], about["action_counts"], strict=True)
    ]
    table = _table(["agent", *map(str, range(size))], rows)
    table = f"<details><summary>The same in numbers</summary>{table}</details>"
    body = f'<div class="multiples">{"".join(figures)}</div>{table}'
    return section(f"Actions{name}", text, body)


def _features(about: About, name: str) -> str:
    """The range of each observation feature."""
    features = about["features"]
    text = "Range and mean of each feature of the observations, over all agents that were there."
    if len(features["low"]) > MOST_FEATURES:
        text += f" The first {MOST_FEATURES} of {len(features['low'])} are drawn."
    return section(f"Features{name}", text, _ranges(features, "feature"))


def _findings(findings: Sequence[Finding], name: str) -> str:
    """What `oryx data check` says."""
    if not findings:
        return section(f"Checks{name}", "No check found anything.", "")
    items = []
    for kind in dict.fromkeys(finding.kind for finding in findings):
        first = next(finding for finding in findings if finding.kind == kind)
        more = f", {first.times}" if first.count > 1 else ""
        items.append(
            f'<li class="{first.severity}"><b class="tag">{first.severity}</b> {escape(kind)}{more}'
            f": {escape(str(first))}. <span>{escape(first.remedy)}</span></li>"
        )
    text = "Each kind once, with its first place; further places: oryx data check --json."
    return section(f"Checks{name}", text, f'<ul class="findings">{"".join(items)}</ul>')


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Texts in rows; the first of each names it."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in texts)
        + "</tr>"
        for name, *texts in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _ranges(found: Mapping[str, Sequence[float | None]], title: str) -> str:
    low, high, mean = (
        np.array(found[key][:MOST_FEATURES], np.float64) for key in ("low", "high", "mean")
    )
    return charts.ranges(low, high, mean, title)


def _histogram(found: Mapping[str, Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(found["edges"], np.float64), np.array(found["counts"], np.float64)


def _text(value: float | None) -> str:
    return numbers.MISSING if value is None else numbers.one(value)
