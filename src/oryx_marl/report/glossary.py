"""What the numbers of a page mean, in a sentence each."""

from collections.abc import Iterable
from html import escape

from oryx_marl.eval import metrics

NAMES = {
    "max_logit": "largest |logit|",
    "min_log_std": "smallest log-std",
    "policy_loss": "policy loss",
    "critic_loss": "critic loss",
    "log_likelihood": "held-out log-likelihood",
    "valid_label_share": "valid-label share",
}
"""Metrics whose name alone does not say enough, by the name that they have on disk."""
MEANINGS = {
    "action_accuracy": (
        "share of the logged actions, in episodes that were not trained on, that the policy "
        "finds the likeliest; 1 is a perfect copy of the logged behaviour, which need not be good"
    ),
    "log_likelihood": (
        "mean log-probability that the policy gives to the logged actions of those episodes; 0 "
        "is the highest for discrete actions, and more negative is worse"
    ),
    "marginal-action baseline": (
        "the same score of a policy that only knows how often each agent took each action; a "
        "policy that is no better has learned nothing from the observations"
    ),
    "spread within a seed": (
        "standard deviation of the return over the episodes of one trained seed: how much "
        "episodes differ, not how sure the mean is"
    ),
    "worst tenth": (
        "mean return of the lowest tenth of a seed's episodes, averaged over seeds (CVaR at 10%): "
        "how bad the bad episodes are"
    ),
    "acting": (
        "sampled: actions are drawn from the policy; greedy: always its likeliest action; a number "
        "is the temperature between them at which actions are drawn (1 is sampled, 0 greedy)"
    ),
    "95% interval": (
        "where the mean over seeds lies with 95% confidence (Student's t, the seed is the unit); "
        "unknown with one seed, and not shown where all seeds score the same"
    ),
    "effective_sample_size": (
        "share of a batch's actions that the policy loss effectively learns from, (Σw)² / (n Σw²) "
        "of their n weights w: near 1 all count alike, near 0 hardly any counts"
    ),
    "valid_label_share": (
        "share of the logged actions that the policy loss learns from; the others belong to "
        "absent agents or are not allowed by the action mask"
    ),
    "max_logit": "largest absolute logit of the policy: it grows without bound on invalid actions",
    "min_log_std": (
        "smallest logarithm of a continuous policy's standard deviation, before squashing: at its "
        "lower bound the policy is a spike and no longer learns from other actions"
    ),
}
"""By the name on disk, or by the words that stand on the page."""


def name(metric: str) -> str:
    """A metric's name as people write it."""
    return NAMES.get(metric, metric.replace("_", " "))


def meaning(metric: str) -> str:
    """What a metric is, or nothing if its name says it."""
    return MEANINGS.get(metric, "")


def explain(terms: Iterable[str]) -> str:
    """A list of those of the terms that need explaining, to stand below their numbers."""
    rows = "".join(
        f"<div><dt>{escape(name(term))}</dt><dd>{escape(MEANINGS[term])}.</dd></div>"
        for term in terms
        if term in MEANINGS
    )
    if not rows:
        return ""
    return (
        '<details class="glossary" open><summary>What these numbers are</summary>'
        f"<dl>{rows}</dl></details>"
    )


def bounds(metric: str) -> tuple[float, float] | None:
    """What a metric of this name lies between, where that is known."""
    is_share = metric.endswith(("share", "accuracy", "effective_sample_size"))
    return (0.0, 1.0) if is_share or metrics.is_rate(metric) else None
