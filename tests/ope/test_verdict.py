"""Verdicts from given estimates, and the support they rest on."""

import numpy as np
import pytest
from tabular_game import Tabular, as_dataset

from oryx_marl.ope import support, verdict
from oryx_marl.ope.document import Trust
from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.sequences import Packed, find_horizon, pack
from oryx_marl.ope.support import Support
from oryx_marl.ope.walk import Walked

LOGS = Estimate(1.0, 0.9, 1.1, 0.05)


def supported(share: float = 0.0, joint: float = 0.0) -> Support:
    return Support(share, joint, [share] * 2, [joint] * 4, np.log(0.01), 100, [])


def judge(value: Estimate, outside: float = 0.0, held_out: int = 50, **others: Estimate):
    return verdict.judge(value, LOGS, supported(outside, outside), 1.0, others, held_out)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Estimate(2.0, 1.6, 2.4, 0.15), "better"),
        (Estimate(0.3, 0.1, 0.5, 0.07), "worse"),
        (Estimate(1.05, 0.9, 1.2, 0.05), "same"),
        (Estimate(1.5, 0.2, 2.8, 0.5), "unknown"),
    ],
)
def test_kinds(value: Estimate, kind: str) -> None:
    found = judge(value)
    assert found.kind == kind
    assert found.text.startswith(verdict.ALONE.get(found.kind, verdict.WORDS[found.kind]))
    assert "of the logs" in found.reasons[0]


def test_what_nothing_else_confirms_is_not_called_sure() -> None:
    value = Estimate(2.0, 1.6, 2.4, 0.15)
    alone = judge(value, doubly=Estimate(None, refused="few"))
    assert (alone.kind, alone.text) == ("better", "better than the logs, by the critics alone")
    assert verdict.UNCONFIRMED in alone.reasons
    sure = judge(value, doubly=Estimate(1.9, 1.5, 2.3, 0.2))
    assert sure.text == "better than the logs with 95%"
    assert verdict.UNCONFIRMED not in sure.reasons


def test_support_comes_first() -> None:
    found = judge(Estimate(9.0, 8.9, 9.1, 0.04), outside=0.5)
    assert (found.kind, found.text) == ("unknown", "cannot tell: too little support")
    assert "50% of the policy's decisions" in found.reasons[0]


def test_estimators_that_disagree() -> None:
    found = judge(Estimate(2.0, 1.6, 2.4, 0.15), doubly=Estimate(0.5, 0.4, 0.6, 0.05))
    assert found.text == "cannot tell: the estimators disagree"


def test_refusals_and_missing_episodes_are_told() -> None:
    found = judge(Estimate(2.0, 1.6, 2.4, 0.15), held_out=0, doubly=Estimate(None, refused="few"))
    assert "no number by doubly: few" in found.reasons
    assert any("no episodes were held out" in reason for reason in found.reasons)
    assert any("only 7 episodes" in reason for reason in judge(LOGS, held_out=7).reasons)


def test_documents_are_read_back() -> None:
    found = judge(Estimate(2.0, 1.6, 2.4, 0.15))
    listed = support.Unusual(3, 1, [0, None], [1, None], -7.5)
    outside = Support(0.0, 0.0, [0.0, 0.0], [0.0] * 4, -4.6, 10, [listed])
    document = Trust(
        key="k",
        dataset="d",
        act="sampled",
        horizon=3,
        episodes=9,
        held_out=2,
        logged=LOGS,
        logged_spread=1.0,
        estimates={"fqe": LOGS},
        seeds=[],
        support=outside,
        agents=["a", "b"],
        logged_per_agent=None,
        verdict=found,
        seconds=1.0,
        rest={"later": 1},
    )
    assert Trust.from_json(document.to_json()) == document
    assert document.per_agent is None


def walked(packed: Packed, log_probability: float, rare_at: tuple[int, int]) -> Walked:
    """A policy whose first agent does something rare in one step of one episode."""
    shape = packed.step.shape
    choice = np.asarray(packed.sequences.is_step)[..., None] & np.ones(2, bool)
    sampled = np.full((*shape, 2, 2), np.log(0.5), np.float32)
    episode = np.asarray(packed.sequences.episode)
    at = np.argwhere((episode == rare_at[0]) & (packed.step == rare_at[1]))[0]
    sampled[at[0], at[1], :, 0] = log_probability
    zeros = np.zeros((*shape, 2), np.float32)
    return Walked(zeros, zeros, np.ones((*shape, 2, 2), np.int32), sampled, choice)


def test_support_finds_the_rare_joint_action() -> None:
    logs = as_dataset(Tabular.uniform(), 20)
    packed = pack(logs, find_horizon(logs), np.zeros(20, int))
    everything, names = np.ones(20, bool), np.arange(20) + 100
    found = support.measure(packed, walked(packed, -9.0, (7, 1)), False, everything, names)
    assert found.share == pytest.approx(1 / 120)
    assert found.joint_share == pytest.approx(1 / 60)
    assert found.per_agent == pytest.approx([1 / 60, 0])
    assert found.by_part[0] == found.by_part[2] == 0
    assert found.by_part[1] == pytest.approx(1 / 20)
    assert found.by_part[3] is None  # three steps have no fourth quarter
    (listed,) = found.unusual
    assert (listed.episode, listed.step, listed.actions) == (107, 1, [1, 1])
    assert listed.log_probability == pytest.approx(-9.0 + np.log(0.5))
    only = np.arange(20) != 7
    assert support.measure(packed, walked(packed, -9.0, (7, 1)), False, only, names).share == 0
