"""Scores on the page: the headline, the table of results, and the episodes that were held out."""

import math
from html import escape

from oryx_marl.ope.document import Trust
from oryx_marl.policy.acting import TEMPERATURES
from oryx_marl.report import glossary, interval, numbers
from oryx_marl.report.document import absent, count, section
from oryx_marl.report.run import RunContents
from oryx_marl.runs.documents import Score, Summary

WEIGHTS = {"last": "final weights", "best": "best checkpoint"}
TRUST_PAGE = "trust.html"
MOST_SEEDS = 20
"""Whose scores stand side by side."""


def find(run: RunContents) -> tuple[str, Score, str]:
    """The metric's name, the score that heads the page, and a sentence on what it is."""
    if run.summary is not None:
        (weights, acting), score = next(iter(run.summary.scores.items()))
        seeds = len(score.per_seed) or len(run.config.seeds)
        episodes = numbers.one(run.summary.episodes)
        made = f"{count(seeds, 'seed')} × {episodes} {_episodes(acting)}"
        explained = f"{made} with the {WEIGHTS[weights]}{_over(seeds, score)}."
        return run.summary.metric, score, explained
    if run.curve is None and run.trust is not None:
        return _find_expected(run.trust)
    if run.curve is None:
        return _find_accuracy(run)
    last = run.curve.last
    found = interval.over_seeds(last[:, None], run.curve.is_rate)
    mean, low, high = (float(part[0]) for part in found)
    score = Score(mean, low, high, tuple(last.tolist()), ())
    made = f"{count(len(last), 'seed')} × {count(run.curve.last_episodes, 'episode')}"
    explained = f"{made} of the last evaluation{_over(len(last), score)}."
    return "mean return", score, explained


def _episodes(acting: str) -> str:
    """What episodes played in a way of acting are called."""
    return f"{acting} episodes" if acting in TEMPERATURES else f"episodes at temperature {acting}"


def _find_expected(trust: Trust) -> tuple[str, Score, str]:
    """What heads the page where the policy was evaluated by logs alone."""
    value = trust.value
    found = [math.nan if each is None else each for each in (value.value, value.low, value.high)]
    mean, low, high = found
    reasons = "; ".join(trust.verdict.reasons)
    explained = (
        f"{trust.verdict.text[:1].upper()}{trust.verdict.text[1:]}: {reasons}. Estimated from logs "
        f"alone, in brackets the 95% interval; more of it is in {TRUST_PAGE} beside this page."
    )
    per_seed = tuple(each.estimates["fqe"].value or math.nan for each in trust.seeds)
    return "expected return", Score(mean, low, high, per_seed), explained


def _find_accuracy(run: RunContents) -> tuple[str, Score, str]:
    """What heads the page where there is no environment to score in."""
    assert run.held_out is not None
    score = run.held_out.action_accuracy
    seeds = len(score.per_seed)
    (baseline,) = numbers.together([run.held_out.baseline["action_accuracy"]])
    verdict = run.held_out.verdict
    told = "" if verdict is None else f"The policy is {verdict}. "
    explained = (
        f"Share of the held-out actions that the policy would have chosen too, "
        f"{run.held_out.counted}; the marginal-action baseline reaches {baseline}. "
        f"{told}It is no measure of "
        f"success: the data come from no environment we know{_over(seeds, score)}."
    )
    lost = run.notes.get(Trust.file, "")
    if lost and not lost.startswith("This run has no"):  # it was there, and is damaged
        explained += f" {lost}: estimate the return again with `oryx trust`."
    return glossary.name("action_accuracy"), score, explained


def _over(seeds: int, score: Score) -> str:
    """What the brackets are, or why there are none."""
    if seeds < 2:
        return "; one seed says nothing about the spread between seeds"
    if score.has_interval:
        return "; in brackets the 95% interval over seeds"
    return "; all seeds score the same, so there is no interval" if score.is_constant else ""


def show(run: RunContents) -> str:
    """Final weights and best checkpoint, in every way of acting."""
    if run.summary is None:
        gone = "the result above comes from the evaluations during training"
        return absent("Results", run.notes["summary.json"], gone)
    summary: Summary = run.summary
    metric = summary.metric[:1].upper() + summary.metric[1:]
    text = (
        f"{metric} over {numbers.one(summary.episodes)} fresh episodes per seed. The best "
        "checkpoint is the one that scored best during training, scored again; choosing it needs "
        "a simulator."
    )
    beside = _columns_beside(summary)
    heads = ["weights", "acting", "mean", "95% interval", *beside]
    heads += ["each seed", "spread within a seed"]
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    chosen = next(iter(summary.scores))
    rows = []
    for (weights, acting), score in summary.scores.items():
        mean, low, high = numbers.together([score.mean, score.low, score.high], extra=1)
        between = f"[{low}, {high}]" if score.has_interval else numbers.MISSING
        mark = ' class="chosen"' if (weights, acting) == chosen else ""
        rows.append(
            f'<tr{mark}><th scope="row">{WEIGHTS[weights]}</th>'
            f'<td class="acting">{escape(acting)}</td>'
            f'<td class="result">{mean}</td><td class="between">{between}</td>'
            + "".join(
                f'<td class="beside" data-name="{head}">{_interval(getattr(score, name))}</td>'
                for head, name in beside.items()
            )
            + f'<td class="list">{_list(score.per_seed)}</td>'
            f'<td class="list within">{_list(score.within_seed_std)}</td></tr>'
        )
    table = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results">'
        f'<table class="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    explained = glossary.explain(["acting", "95% interval", *beside, "spread within a seed"])
    return section("Results", text, table + explained + _environment_metrics(summary))


def _columns_beside(summary: Summary) -> dict[str, str]:
    """Fields of the scores that have a column of their own, by its head; older runs lack them."""
    names = {"worst tenth": "worst_tenth", "episode length": "length"}
    scores = summary.scores.values()
    return {
        head: name
        for head, name in names.items()
        if any(getattr(score, name) is not None for score in scores)
    }


def _interval(score: Score | None) -> str:
    """A mean and its interval in one cell."""
    if score is None:
        return numbers.MISSING
    mean, low, high = numbers.together([score.mean, score.low, score.high], extra=1)
    return f"{mean} [{low},&nbsp;{high}]" if score.has_interval else mean


def _environment_metrics(summary: Summary) -> str:
    """What the environment itself reported in those episodes, if anything."""
    rows = []
    for (weights, acting), score in summary.scores.items():
        for name, found in score.metrics.items():
            mean, low, high = numbers.together([found.mean, found.low, found.high], extra=1)
            between = f"[{low}, {high}]" if found.has_interval else numbers.MISSING
            rows.append(
                f'<tr><th scope="row">{escape(glossary.name(name))}</th><td>{WEIGHTS[weights]}</td>'
                f'<td class="acting">{escape(acting)}</td><td class="result">{mean}</td>'
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


def show_held_out(run: RunContents) -> str:
    """How well logged actions are predicted, where episodes were held out."""
    found = run.held_out
    if found is None:
        return ""
    text = (
        f"{count(found.episodes, 'episode')} ({numbers.one(found.steps)} steps) were not learned "
        f"from. How well the final weights predict their actions, {found.counted}:"
    )
    heads = ("", "policy", "95% interval", "marginal-action baseline")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = []
    scores = {"action_accuracy": found.action_accuracy, "log_likelihood": found.log_likelihood}
    for name, score in scores.items():
        known = [] if score is None else [score.mean, score.low, score.high]
        baseline, *texts = numbers.together([found.baseline[name], *known], extra=1)
        cells = [numbers.MISSING, numbers.MISSING, baseline]
        if score is not None:
            mean, low, high = texts
            cells[:2] = [mean, f"[{low}, {high}]" if score.has_interval else numbers.MISSING]
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{glossary.name(name)}</th>{row}</tr>')
    table = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    explained = glossary.explain([*scores, "marginal-action baseline"])
    return section("Held-out episodes", text, table + explained)


def _list(values: tuple[float, ...]) -> str:
    """Numbers one after another."""
    if not values:
        return numbers.MISSING
    more = f" and {len(values) - MOST_SEEDS:,} more" if len(values) > MOST_SEEDS else ""
    return " ".join(numbers.together(values[:MOST_SEEDS], extra=1)) + more
