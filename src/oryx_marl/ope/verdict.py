"""One verdict in words, with its reasons."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from scipy import stats

from oryx_marl.ope.intervals import LEVEL, Estimate
from oryx_marl.ope.support import Support

Kind = Literal["better", "same", "worse", "unknown"]
WORDS: dict[Kind, str] = {
    "better": "better than the logs with 95%",
    "same": "as the logs",
    "worse": "worse than the logs with 95%",
    "unknown": "cannot tell",
}
ALONE = {kind: f"{kind} than the logs, by the critics alone" for kind in ("better", "worse")}
"""The same where no other estimate confirms it: critics were too high on logs with memory."""
MOST_OUTSIDE = 0.1
"""Share of the policy's decisions that may be outside of the logs."""
MOST_STEPS_OUTSIDE = 0.3
"""The same of the steps in which some agent's decision is."""
NEGLIGIBLE = 0.3
"""Standard deviations of logged returns: a difference that is surely smaller is none."""
NEGLIGIBLE_SHARE = 0.03
"""The same as a share of the logged return, whose spread may be 0."""
FEW_EPISODES = 20
UNCONFIRMED = (
    "only the critics say so: they judge in logged situations, and have been far too sure of "
    "policies that go astray in situations of their own; try it on a small, safe share first"
)


@dataclass(frozen=True)
class Verdict:
    """What is to be thought of a policy."""

    kind: Kind
    text: str
    reasons: list[str]
    difference: Estimate
    """Of the policy's return and that of the logs."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Verdict":
        difference = Estimate.from_json(values["difference"])
        return Verdict(**{**values, "difference": difference})


def judge(
    value: Estimate,
    logged: Estimate,
    support: Support,
    spread: float,
    others: dict[str, Estimate],
    held_out: int,
) -> Verdict:
    """The verdict on a policy.

    Args:
        value: its return, by the critics.
        logged: the logs' return.
        support: how far it leaves the logs.
        spread: standard deviation of the logged returns.
        others: estimates of the same by other means.
        held_out: episodes that the policy has not learned from; 0: none.
    """
    difference = subtract(value, logged)
    notes = _notes(value, others, held_out)
    if why := _too_little_support(support):
        return Verdict(
            "unknown", f"{WORDS['unknown']}: too little support", [why, *notes], difference
        )
    gap, error = difference.value, difference.spread
    if gap is None or error is None:
        text = f"{WORDS['unknown']}: {difference.refused}"
        return Verdict("unknown", text, notes, difference)
    told = f"expected return {_number(value)} against {_number(logged)} of the logs"
    sureness = float(stats.norm.cdf(gap / error)) if error > 0 else float(gap > 0)
    tolerance = max(NEGLIGIBLE * spread, NEGLIGIBLE_SHARE * abs(logged.value or 0.0))
    assert difference.low is not None
    assert difference.high is not None
    within = -tolerance <= difference.low and difference.high <= tolerance
    if disagree := _disagree(value, others):
        text = f"{WORDS['unknown']}: the estimators disagree"
        return Verdict("unknown", text, [told, disagree, *notes], difference)
    kind: Kind = "unknown"
    if sureness >= (1 + LEVEL) / 2 and gap > 0.1 * spread:
        kind = "better"
    elif sureness <= (1 - LEVEL) / 2 and gap < -0.1 * spread:
        kind = "worse"
    elif within or abs(gap) <= 1e-9:
        kind = "same"
    text = WORDS[kind] if kind != "unknown" else f"{WORDS[kind]}: the interval is too wide"
    if kind in ALONE and not any(each.value is not None for each in others.values()):
        text = ALONE[kind]
        notes = [UNCONFIRMED, *notes]
    return Verdict(kind, text, [told, *notes], difference)


def subtract(value: Estimate, logged: Estimate) -> Estimate:
    """Difference of two estimates with independent errors."""
    if value.value is None or logged.value is None:
        return Estimate(None, refused=value.refused or logged.refused)
    if value.spread is None or logged.spread is None:
        why = value.refused or logged.refused or "no interval is known"
        return Estimate(value.value - logged.value, refused=why)
    gap = value.value - logged.value
    spread = (value.spread**2 + logged.spread**2) ** 0.5
    # The critics are few, so their part of the interval is wider than a Normal's.
    reach = max((value.high or 0) - value.value, 0) ** 2 + (1.96 * logged.spread) ** 2
    return Estimate(gap, gap - reach**0.5, gap + reach**0.5, reach**0.5 / 1.96 or spread)


def _too_little_support(support: Support) -> str:
    if support.share > MOST_OUTSIDE:
        return (
            f"{support.share:.0%} of the policy's decisions are ones that the logged behaviour "
            f"hardly ever takes (at most {MOST_OUTSIDE:.0%} may be)"
        )
    if support.joint_share > MOST_STEPS_OUTSIDE:
        return (
            f"in {support.joint_share:.0%} of the steps some agent does what the logged behaviour "
            f"hardly ever does (at most {MOST_STEPS_OUTSIDE:.0%} may be such)"
        )
    return ""


def _disagree(value: Estimate, others: dict[str, Estimate]) -> str:
    """Where an estimate by other means lies wholly beside the critics'."""
    if value.low is None or value.high is None:
        return ""
    for name, other in others.items():
        if other.low is None or other.high is None:
            continue
        if other.low > value.high or other.high < value.low:
            return f"{name} says {_number(other)}, the critics {_number(value)}"
    return ""


def _notes(value: Estimate, others: dict[str, Estimate], held_out: int) -> list[str]:
    """What else a reader has to know."""
    notes = [
        f"no number by {name}: {each.refused}" for name, each in others.items() if each.refused
    ]
    if held_out == 0:
        notes.append(
            "no episodes were held out of the training: the estimate is from episodes that the "
            "policy has learned from, and may be too high (train with --hold-out 0.1)"
        )
    elif held_out < FEW_EPISODES:
        notes.append(f"only {held_out} episodes were held out of the training")
    return notes


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"
