"""One self-contained page for a run: the result, the replay, the curves, how to make it again."""

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.policy.acting import GREEDY, SAMPLED, by_name, default_for
from oryx_marl.report import (
    again,
    alarms,
    charts,
    document,
    glossary,
    interval,
    live_page,
    numbers,
    replay,
    results,
)
from oryx_marl.report.document import absent, count, legend, pairs, section
from oryx_marl.report.run import LIVE, Curve, Metrics, RunContents, read
from oryx_marl.runs.documents import DatasetCard, Score
from oryx_marl.runs.replay import FILE as REPLAY
from oryx_marl.runs.sealed import to_floats

COPY = '<button type="button" id="copy" aria-describedby="command">Copy</button>'
SCRIPTS = ("viewer.js", "copy.js")
FILE = "report.html"
"""The page, in the folder of a run."""


def write(run: Path, out: Path | None = None) -> Path:
    """The page of the run in a folder, written to `report.html` there or to `out`."""
    page = render(read(run))
    return document.write(page, run / FILE if out is None else out)


def render(run: RunContents) -> str:
    """The whole page as text."""
    title = f"{run.config.algorithm} on {run.config.dataset}"
    played = [] if run.curve is None else [_replay(run), _curve(run, run.curve)]
    sections = [
        *played,
        results.show_held_out(run),
        _dataset(run),
        "" if run.curve is None else results.show(run),
        _metrics(run),
        _settings(run),
        _again(run),
    ]
    body = f"{_headline(run)}\n{''.join(sections)}"
    scripts = ["".join(document.package_file(name) for name in SCRIPTS)]
    if _plays_live(run):
        assert run.spec is not None
        scripts.append(live_page.script(run.spec))
    return document.render(title, body, *scripts)


def _headline(run: RunContents) -> str:
    """The result first: a number, its interval, and what it is a number of."""
    metric, score, explained = results.find(run)
    mean, low, high = numbers.together([score.mean, score.low, score.high])
    spread = f'<span class="range">[{low}, {high}]</span>' if score.has_interval else ""
    facts = [f"{numbers.one(run.config.updates)} gradient updates"]
    if run.config.online:
        steps = run.config.updates * run.config.steps_per_update
        facts = [f"{numbers.one(steps)} environment steps"]
    if run.metrics is not None and np.isfinite(run.metrics.seconds):
        facts.append(f"trained in {numbers.duration(run.metrics.seconds)}")
    if run.config.device:
        facts.append(f"on {run.config.device}")
    place = "in" if run.config.online else "from"
    return f"""<header>
<p class="eyebrow"><b>{escape(run.config.algorithm)}</b> learned {place}
<b>{escape(run.config.dataset)}</b></p>
<h1><span class="metric">{escape(metric)}</span> <span class="value">{mean}</span> {spread}</h1>
<p class="lead">{escape(explained)}</p>
<p class="quiet">{escape(", ".join(facts))}.</p>
{_ringing(run)}</header>"""


def _ringing(run: RunContents) -> str:
    """The alarms that rang, in the head of the page: a good number may not hide them."""
    found = {} if run.metrics is None else alarms.read(run.metrics, run.config.seeds)
    lines = [
        f"<b>{escape(glossary.name(n))}</b>: {escape(a.text)}" for n, a in found.items() if a.rings
    ]
    return f'<p class="alarms">{"<br>".join(lines)}</p>' if lines else ""


def _replay(run: RunContents) -> str:
    """Recorded episodes, played."""
    if run.replay is None:
        return absent("Replay", run.notes["replay.npz"], _why_no_replay(run))
    agents = run.spec.agents if run.spec is not None else ()
    seed = f" (number {run.config.seeds[0]})" if run.config.seeds else ""
    text = (
        f"The first {count(len(run.replay), 'episode')} that the final weights of the first seed"
        f"{seed} played after training, {_tell_acting(run)}: not chosen, so good and bad ones are "
        "as frequent as they come."
    )
    if not _plays_live(run):
        text += " Space plays and pauses, the arrow keys step."
        why = f'<p class="quiet">{escape(run.notes[LIVE])}.</p>' if LIVE in run.notes else ""
        return section("Replay", text, why + replay.section(run.replay, agents))
    assert run.live is not None
    text = (
        "The policy itself acts here, inside this page. Bars show how likely each action of an "
        "agent is; choose one for it, and see how the others react. To start from: "
        f"{text[0].lower()}{text[1:]}"
    )
    played = live_page.section(run.live, run.replay) + replay.section(run.replay, agents)
    return section("Replay", text, played)


def _plays_live(run: RunContents) -> bool:
    """Whether the page runs the policy; its section is there only with a curve."""
    return run.live is not None and run.curve is not None


def _tell_acting(run: RunContents) -> str:
    """How the episodes of the replay were played: as those of the headline."""
    acts = run.config.rest.get("evaluation", {}).get("act", SAMPLED)
    if acts is None:
        acts = SAMPLED if run.spec is None else default_for(run.spec.action)
    name = next(iter(by_name(acts)))
    told = {SAMPLED: "actions sampled", GREEDY: "always the likeliest action"}
    return told.get(name, f"actions drawn at temperature {name}")


def _why_no_replay(run: RunContents) -> str:
    """What the absence of the file means."""
    if run.notes["replay.npz"] != f"This run has no {REPLAY}":
        return "there is no replay to show"  # it is damaged
    if run.config.rest.get("evaluation", {}).get("replays") == 0:
        return "there is no replay to show: it was trained with replays 0"
    return (
        "there is no replay to show: episodes are recorded in environments written in JAX that "
        "draw pictures (render_rgb), and this one runs outside of JAX or draws none"
    )


def _curve(run: RunContents, curve: Curve) -> str:
    """Return against updates."""
    mean, low, high = interval.over_seeds(curve.scores, curve.is_rate)
    reference = _mean_return(run.dataset) if run.dataset is not None else np.nan
    updates = curve.updates.astype(np.float64)
    metric = "return" if run.summary is None else run.summary.metric
    bounds = glossary.bounds(metric)
    chart = charts.learning_curve(updates, curve.scores, mean, low, high, reference, bounds)
    seeds = len(curve.seeds)
    keys = [("mean", f"mean of {count(seeds, 'seed')}")]
    if seeds > 1:
        keys += [("band", "95% interval over seeds"), ("seed", "each seed")]
    if np.isfinite(reference):
        keys.append(("level", f"dataset mean {numbers.one(reference)}"))
    text = "Mean return of the evaluation episodes during training."
    if seeds > 1:
        text += " The band is Student's t over seeds" + (", cut to 0 and 1." * curve.is_rate or ".")
    head = "".join(f'<th scope="col">{name}</th>' for name in ("update", "mean", "95% interval"))
    head += "".join(f'<th scope="col">seed {escape(seed)}</th>' for seed in curve.seeds)
    rows = []
    for place, update in enumerate(curve.updates.tolist()):
        points = [mean[place], low[place], high[place], *curve.scores[:, place]]
        middle, below, above, *each = numbers.together([float(p) for p in points], extra=1)
        is_known = Score(mean[place], low[place], high[place], ()).has_interval
        between = f"[{below}, {above}]" if is_known else numbers.MISSING
        cells = "".join(f"<td>{cell}</td>" for cell in (middle, between, *each))
        rows.append(f'<tr><th scope="row">{numbers.one(update)}</th>{cells}</tr>')
    table = (
        '<details><summary>The same in numbers</summary><div class="scroll"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )
    return section("Learning curve", text, legend(keys) + chart + table)


def _dataset(run: RunContents) -> str:
    """What was learned from."""
    card = run.dataset
    if run.config.online:
        return ""
    if card is None:
        return absent("Dataset", run.notes["dataset.json"], "the dataset is not described here")
    part = " that were learned from" if run.held_out is not None else ""
    chart, text = "", f"Returns of the logged episodes of {card.name}{part}."
    mean_return = _mean_return(card)
    edges, counts = (to_floats(card.histogram[name]) for name in ("edges", "counts"))
    if counts.size == 1:
        text = f"Every logged episode of {card.name} has the return {numbers.one(mean_return)}."
    if counts.size:
        levels = {"level": mean_return}
        keys = [("level", f"dataset mean {numbers.one(mean_return)}")]
        if run.curve is not None:
            levels["policy"] = float(run.curve.last.mean())
            mean = numbers.one(levels["policy"])
            keys.append(("policy", f"learned policy {mean} (last evaluation)"))
        finite = {kind: value for kind, value in levels.items() if np.isfinite(value)}
        chart = legend(keys) + charts.histogram(edges, counts, finite)
    facts = {name: numbers.one(value) for name, value in _facts(card).items()}
    mark = f'<p class="quiet">Fingerprint <code>{escape(card.fingerprint)}</code></p>'
    return section("Dataset", text, chart + _pairs(facts) + (mark if card.fingerprint else ""))


def _mean_return(card: DatasetCard) -> float:
    """NaN where no return is a number."""
    return float(to_floats(card.returns["mean"])[0])


def _facts(card: DatasetCard) -> dict[str, float]:
    """The dataset's numbers under the names that people see."""
    agents = len(card.agents) if isinstance(card.agents, list) else card.agents
    facts: dict[str, Any] = {
        "episodes": card.episodes,
        "transitions": card.transitions,
        "agents": agents,
    }
    facts |= {f"return, {name}": card.returns.get(name) for name in ("mean", "std", "min", "max")}
    facts |= {f"episode length, {name}": card.lengths.get(name) for name in ("mean", "min", "max")}
    return {name: float(value) for name, value in facts.items() if value is not None}


def _metrics(run: RunContents) -> str:
    """A small chart per logged metric, alarms first."""
    metrics = run.metrics
    if metrics is None:
        return absent("Losses", run.notes["metrics.jsonl"], "there are no losses to show")
    found = alarms.read(metrics, run.config.seeds)
    watched = [name for name in metrics.series if _watched(name)]
    rest = [name for name in metrics.series if not _watched(name)]
    grids = "".join(
        f'<div class="multiples">{"".join(_figure(metrics, name, found) for name in names)}</div>'
        for names in (watched, rest)
        if names
    )
    text = (
        "Mean over seeds, with the range from the lowest to the highest seed; beside each name "
        "the last value. Warnings tell when a result should not be trusted."
    )
    return section("Losses", text, grids + glossary.explain([*watched, *rest]))


def _figure(metrics: Metrics, name: str, found: dict[str, alarms.Alarm]) -> str:
    """One metric: its name, its last value, its chart and what its alarm says."""
    series = metrics.series[name]
    last = series.values[:, -1][np.isfinite(series.values[:, -1])]
    now = numbers.one(float(last.mean())) if last.size else numbers.MISSING
    alarm = found.get(name)
    kind, state = "", ""
    if alarm is not None:
        tag = "warning" if alarm.rings else "OK"
        kind = ' class="rings"' if alarm.rings else ""
        state = f'<p class="state"><span class="tag">{tag}</span> {escape(alarm.text)}</p>'
    label, meaning = glossary.name(name), glossary.meaning(name)
    about = f' title="{escape(meaning)}"' if meaning else ""
    chart = charts.small(series.updates, series.values, label, glossary.bounds(name))
    return (
        f"<figure{kind}><figcaption><span{about}>{escape(label)}</span><b>{now}</b></figcaption>"
        f"{chart}{state}</figure>"
    )


def _settings(run: RunContents) -> str:
    """Everything the algorithm was told, and what the agents are."""
    settings = {name: _plain(value) for name, value in again.flatten(run.config.config).items()}
    if run.spec is not None:
        spec = run.spec
        kind = "actions" if spec.action.kind == "discrete" else "action dimensions"
        text = (
            f"{spec.num_agents} agents, observations of {spec.observation_size} features, "
            f"{spec.action.size} {kind}"
        )
        text += f", at most {spec.episode_limit} steps." if spec.episode_limit else "."
    else:
        text = f"{run.notes['spec.json']}, so the agents are not described here."
    return section("Settings", text, _pairs(settings))


def _again(run: RunContents) -> str:
    """The command that makes this run."""
    config = run.config
    made = f"oryx-marl {config.version}" if config.version else "oryx-marl"
    made += f" on {config.device}" if config.device else ""
    text = f"This run was made with {made}."
    command = escape(again.command(config.to_json()))
    copied = f'<div class="copy"><pre id="command">{command}</pre>{COPY}</div>'
    return section("Make it again", text, copied)


def _pairs(values: dict[str, str]) -> str:
    """Names and values in two columns."""
    return pairs({glossary.name(name): value for name, value in values.items()})


def _plain(value: Any) -> str:
    """A JSON value as text, exact."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _watched(name: str) -> bool:
    """Whether a metric is one of the alarms."""
    found = (alarms.is_logit, alarms.is_log_std, alarms.is_sample_size)
    return any(is_one(name) for is_one in found)
