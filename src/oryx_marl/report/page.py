"""One self-contained page for a run: the result, the replay, the curves, how to make it again."""

import dataclasses
import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.eval import metrics
from oryx_marl.report import again, alarms, charts, document, interval, numbers, replay
from oryx_marl.report.document import legend, pairs, section
from oryx_marl.report.run import Curve, Metrics, RunContents, read
from oryx_marl.runs.documents import DatasetCard, Score, Summary
from oryx_marl.runs.sealed import to_floats

WEIGHTS = {"last": "final weights", "best": "best checkpoint"}
NAMES = {
    "max_logit": "largest |logit|",
    "policy_loss": "policy loss",
    "critic_loss": "critic loss",
    "agreement": "agreement with an action",
    "log_likelihood": "log-likelihood of an action",
}
"""Metrics whose name alone does not say enough."""


UNLEARNED = "So this policy has learned next to nothing: train longer before you use it. "


def write(run: Path, out: Path | None = None) -> Path:
    """The page of the run in a folder, written to `report.html` there or to `out`."""
    page = render(read(run))
    return document.write(page, run / "report.html" if out is None else out)


def render(run: RunContents) -> str:
    """The whole page as text."""
    title = f"{run.config.algorithm} on {run.config.dataset}"
    played = [] if run.curve is None else [_replay(run), _curve(run, run.curve)]
    sections = [
        *played,
        _held_out(run),
        _dataset(run),
        "" if run.curve is None else _results(run),
        _metrics(run),
        _settings(run),
        _again(run),
    ]
    body = f"{_headline(run)}\n{''.join(sections)}"
    return document.render(title, body, document.package_file("viewer.js"))


def _headline(run: RunContents) -> str:
    """The result first: a number, its interval, and what it is a number of."""
    metric, score, explained = _result(run)
    mean, low, high = numbers.together([score.mean, score.low, score.high])
    spread = f'<span class="range">[{low}, {high}]</span>' if np.isfinite(score.low) else ""
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


def _result(run: RunContents) -> tuple[str, Score, str]:
    """The metric's name, the score that heads the page, and a sentence on what it is."""
    if run.summary is not None:
        (weights, acting), score = next(iter(run.summary.scores.items()))
        seeds = len(score.per_seed) or len(run.config.seeds)
        episodes = numbers.one(run.summary.episodes)
        made = f"{_count(seeds, 'seed')} × {episodes} {acting} episodes"
        explained = f"{made} with the {WEIGHTS[weights]}{_over(seeds, score)}."
        return run.summary.metric, _cut(run, score), explained
    if run.curve is None:
        return _foretold(run)
    last = run.curve.last
    mean, low, high = (float(part[0]) for part in interval.over_seeds(last[:, None]))
    score = Score(mean, low, high, tuple(last.tolist()), ())
    made = f"{_count(len(last), 'seed')} × {_count(run.curve.last_episodes, 'episode')}"
    explained = f"{made} of the last evaluation{_over(len(last), score)}."
    return "mean return", _cut(run, score), explained


def _foretold(run: RunContents) -> tuple[str, Score, str]:
    """What heads the page where there is no environment to score in."""
    assert run.held_out is not None
    score = run.held_out.agreement
    seeds = len(score.per_seed)
    guess = numbers.one(run.held_out.guess["agreement"])
    explained = (
        f"Share of the held-out actions that the policy would have chosen too, "
        f"{run.held_out.counted}; the most frequent action alone reaches {guess}. "
        f"{UNLEARNED if score.mean <= run.held_out.guess['agreement'] else ''}It is no measure of "
        f"success: the data come from no environment we know{_over(seeds, score)}."
    )
    return "agreement", score, explained


def _cut(run: RunContents, score: Score) -> Score:
    """The interval without what no mean can be: Student's t knows of no bounds."""
    metric = "return" if run.summary is None else run.summary.metric
    if metrics.is_rate(metric):
        bounds = (0.0, 1.0)
    elif metric.endswith("return") and run.curve is not None:
        seen = (run.curve.lowest, run.curve.highest, *score.per_seed)
        bounds = (min(seen), max(seen))
    else:
        return score
    low, high = np.clip([score.low, score.high], *bounds).tolist()
    return dataclasses.replace(score, low=low, high=high)


def _over(seeds: int, score: Score) -> str:
    """What the brackets are, or why there are none."""
    if seeds < 2:
        return "; one seed says nothing about the spread between seeds"
    return "; in brackets the 95% interval over seeds" if np.isfinite(score.low) else ""


def _ringing(run: RunContents) -> str:
    """The alarms that rang, in the head of the page: a good number may not hide them."""
    found = {} if run.metrics is None else alarms.read(run.metrics, run.config.seeds)
    lines = [f"<b>{escape(_name(n))}</b>: {escape(a.text)}" for n, a in found.items() if a.rings]
    return f'<p class="alarms">{"<br>".join(lines)}</p>' if lines else ""


def _replay(run: RunContents) -> str:
    """Recorded episodes, played."""
    if run.replay is None:
        return _absent(run, "Replay", "replay.npz", "there is no replay to show")
    agents = run.spec.agents if run.spec is not None else ()
    text = "The learned policy at work. Click the picture or use space and the arrow keys."
    return section("Replay", text, replay.section(run.replay, agents))


def _curve(run: RunContents, curve: Curve) -> str:
    """Return against updates."""
    mean, low, high = interval.over_seeds(curve.scores)
    low, high = (np.clip(side, curve.lowest, curve.highest) for side in (low, high))
    reference = _mean_return(run.dataset) if run.dataset is not None else np.nan
    updates = curve.updates.astype(np.float64)
    chart = charts.learning_curve(updates, curve.scores, mean, low, high, reference)
    seeds = len(curve.seeds)
    keys = [("mean", f"mean of {_count(seeds, 'seed')}")]
    if seeds > 1:
        keys += [("band", "95% interval over seeds"), ("seed", "each seed")]
    if np.isfinite(reference):
        keys.append(("level", f"dataset mean {numbers.one(reference)}"))
    text = "Mean return of the evaluation episodes during training."
    if seeds > 1:
        text += " The band is Student's t over seeds, cut at the lowest and highest episode seen."
    head = "".join(f'<th scope="col">{name}</th>' for name in ("update", "mean", "95% interval"))
    head += "".join(f'<th scope="col">seed {escape(seed)}</th>' for seed in curve.seeds)
    rows = []
    for place, update in enumerate(curve.updates.tolist()):
        points = [mean[place], low[place], high[place], *curve.scores[:, place]]
        middle, below, above, *each = numbers.together([float(p) for p in points], extra=1)
        between = f"[{below}, {above}]" if np.isfinite(low[place]) else numbers.MISSING
        cells = "".join(f"<td>{cell}</td>" for cell in (middle, between, *each))
        rows.append(f'<tr><th scope="row">{numbers.one(update)}</th>{cells}</tr>')
    table = (
        '<details><summary>The same in numbers</summary><div class="scroll"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )
    return section("Learning curve", text, legend(keys) + chart + table)


def _held_out(run: RunContents) -> str:
    """How well logged actions are foretold, where episodes were held out."""
    found = run.held_out
    if found is None:
        return ""
    text = (
        f"{_count(found.episodes, 'episode')} ({numbers.one(found.steps)} steps) were not learned "
        f"from. How well the final weights foretell the actions in them, {found.counted}:"
    )
    heads = ("", "policy", "95% interval", "by frequency alone")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = []
    scores = {"agreement": found.agreement, "log_likelihood": found.log_likelihood}
    for name, score in scores.items():
        cells = [numbers.MISSING, numbers.MISSING]
        if score is not None:
            mean, low, high = numbers.together([score.mean, score.low, score.high], extra=1)
            cells = [mean, f"[{low}, {high}]" if np.isfinite(score.low) else numbers.MISSING]
        cells.append(numbers.one(found.guess[name]))
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{_name(name)}</th>{row}</tr>')
    table = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section("Held-out episodes", text, table)


def _dataset(run: RunContents) -> str:
    """What was learned from."""
    card = run.dataset
    if run.config.online:
        return ""
    if card is None:
        return _absent(run, "Dataset", "dataset.json", "the dataset is not described here")
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


def _results(run: RunContents) -> str:
    """Final weights and best checkpoint, sampled and greedy."""
    if run.summary is None:
        gone = "the result above comes from the evaluations during training"
        return _absent(run, "Results", "summary.json", gone)
    summary: Summary = run.summary
    metric = summary.metric[:1].upper() + summary.metric[1:]
    text = (
        f"{metric} over {numbers.one(summary.episodes)} fresh episodes per seed. The best "
        "checkpoint is the one that scored best during training, scored again; choosing it needs "
        "a simulator."
    )
    heads = ("weights", "acting", "mean", "95% interval", "each seed", "spread within a seed")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    chosen = next(iter(summary.scores))
    rows = []
    for (weights, acting), found in summary.scores.items():
        score = _cut(run, found)
        mean, low, high = numbers.together([score.mean, score.low, score.high], extra=1)
        between = f"[{low}, {high}]" if np.isfinite(score.low) else numbers.MISSING
        mark = ' class="chosen"' if (weights, acting) == chosen else ""
        rows.append(
            f'<tr{mark}><th scope="row">{WEIGHTS[weights]}</th><td class="acting">{acting}</td>'
            f'<td class="result">{mean}</td><td class="between">{between}</td>'
            f'<td class="list">{_list(score.per_seed)}</td>'
            f'<td class="list within">{_list(score.within_seed_std)}</td></tr>'
        )
    table = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results">'
        f'<table class="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section("Results", text, table + _environment_metrics(summary))


def _environment_metrics(summary: Summary) -> str:
    """What the environment itself reported in those episodes, if anything."""
    rows = []
    for (weights, acting), score in summary.scores.items():
        for name, found in score.metrics.items():
            mean, low, high = numbers.together([found.mean, found.low, found.high], extra=1)
            between = f"[{low}, {high}]" if np.isfinite(found.low) else numbers.MISSING
            rows.append(
                f'<tr><th scope="row">{escape(_name(name))}</th><td>{WEIGHTS[weights]}</td>'
                f'<td class="acting">{acting}</td><td class="result">{mean}</td>'
                f'<td class="between">{between}</td></tr>'
            )
    if not rows:
        return ""
    heads = ("metric", "weights", "acting", "mean", "95% interval")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        '<p class="lead">What the environment reported in the same episodes, at their end.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Metrics of the environment">'
        f'<table class="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _metrics(run: RunContents) -> str:
    """A small chart per logged metric, alarms first."""
    metrics = run.metrics
    if metrics is None:
        return _absent(run, "Losses", "metrics.jsonl", "there are no losses to show")
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
        "the last value. Alarms tell when a result should not be trusted."
    )
    return section("Losses", text, grids)


def _figure(metrics: Metrics, name: str, found: dict[str, alarms.Alarm]) -> str:
    """One metric: its name, its last value, its chart and what its alarm says."""
    series = metrics.series[name]
    last = series.values[:, -1][np.isfinite(series.values[:, -1])]
    now = numbers.one(float(last.mean())) if last.size else numbers.MISSING
    alarm = found.get(name)
    kind, state = "", ""
    if alarm is not None:
        tag = "alarm" if alarm.rings else "alarm quiet"
        kind = ' class="rings"' if alarm.rings else ""
        state = f'<p class="state"><span class="tag">{tag}</span> {escape(alarm.text)}</p>'
    return (
        f"<figure{kind}><figcaption><span>{escape(_name(name))}</span><b>{now}</b></figcaption>"
        f"{charts.small(series.updates, series.values, _name(name))}{state}</figure>"
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
    return section("Make it again", text, f"<pre>{escape(again.command(config.to_json()))}</pre>")


def _absent(run: RunContents, title: str, file: str, consequence: str) -> str:
    """One quiet sentence where a file is not there."""
    sentence = escape(f"{run.notes[file]}, so {consequence}.")
    return f'<section><h2>{title}</h2>\n<p class="quiet">{sentence}</p></section>\n'


def _pairs(values: dict[str, str]) -> str:
    """Names and values in two columns."""
    return pairs({_name(name): value for name, value in values.items()})


def _plain(value: Any) -> str:
    """A JSON value as text, exact."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(values: tuple[float, ...]) -> str:
    """Numbers one after another."""
    return " ".join(numbers.together(values, extra=1)) if values else numbers.MISSING


def _watched(name: str) -> bool:
    """Whether a metric is one of the alarms."""
    return alarms.is_logit(name) or alarms.is_sample_size(name)


def _name(name: str) -> str:
    """A name as people write it."""
    return NAMES.get(name, name.replace("_", " "))


def _count(number: int, noun: str) -> str:
    """1 seed, 3 seeds."""
    return f"{numbers.one(number)} {noun}{'' if number == 1 else 's'}"
