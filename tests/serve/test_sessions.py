"""What a session remembers, for how long, and what a client is told when it is gone."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from exports import SPECS, make_policy
from serving import FEW, TOKEN, Ask, Local, make_local

from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.serve.batching import LONG

SEEN = [[0.5] * 5, [0.1] * 3, [0.2] * 4]
OTHER = [[0.4] * 5, [0.1] * 3, [0.2] * 4]
SMALL = {"linear_width": 8, "recurrent_width": 8}


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def policy() -> PolicyArtifact:
    return make_policy("bc", SPECS["discrete"], SMALL)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def shared(policy: PolicyArtifact, clock: Clock) -> Iterator[Local]:
    found = make_local(policy, replace(FEW, max_sessions=5, max_waiting=6), clock=clock)
    yield found
    found.close()


@pytest.fixture
def local(shared: Local, clock: Clock) -> Local:
    """Without any session."""
    clock.now += 10_000
    shared.service.sessions.expire()
    assert len(shared.service.sessions) == 0
    return shared


def test_a_step_that_is_sent_again_is_answered_again(local: Local) -> None:
    path = local.begin(random_seed=1)
    for step in range(4):
        request = {"step": step, "observations": SEEN}
        first = local.ask("POST", f"{path}/act", request)
        again = local.ask("POST", f"{path}/act", request)
        assert (first.status, first.body) == (200, again.body)
    assert local.ask("GET", path).about["step"] == 4
    twin = local.begin(random_seed=1)
    for step in range(4):
        told = local.ask("POST", f"{twin}/act", {"step": step, "observations": SEEN})
    assert told.about["actions"] == first.about["actions"], "nothing advanced twice"


def test_the_same_step_twice_at_the_same_time_is_one_step(local: Local) -> None:
    path = local.begin()
    request = Ask("POST", f"{path}/act", {"step": 0, "observations": SEEN})
    told = local.ask_all([request] * 3)
    assert [each.status for each in told] == [200] * 3
    assert len({each.body for each in told}) == 1
    assert local.ask("GET", path).about["step"] == 1


def test_wrong_steps_are_refused(local: Local) -> None:
    path = local.begin()
    assert local.ask("POST", f"{path}/act", {"step": 0, "observations": SEEN}).status == 200
    late = local.ask("POST", f"{path}/act", {"step": 2, "observations": SEEN})
    assert (late.status, late.code) == (409, "wrong_step")
    assert "next step of this session is 1, not 2" in late.about["error"]["message"]
    other = local.ask("POST", f"{path}/act", {"step": 0, "observations": OTHER})
    assert (other.status, other.code) == (409, "step_differs")
    assert local.ask("POST", f"{path}/act", {"step": 1, "observations": SEEN}).status == 200


def test_one_request_of_a_session_at_a_time(local: Local) -> None:
    path = local.begin()
    asked = [Ask("POST", f"{path}/act", {"observations": each}) for each in (SEEN, OTHER)]
    asked += [Ask("POST", f"{path}/reset"), Ask("DELETE", path)]
    told = local.ask_all(asked)
    assert [each.status for each in told] == [200, 409, 409, 409]
    assert {each.code for each in told[1:]} == {"session_busy"}
    assert local.ask("POST", f"{path}/act", {"step": 1, "observations": SEEN}).status == 200


def test_a_failed_step_changes_nothing(local: Local) -> None:
    path = local.begin()
    assert local.ask("POST", f"{path}/act", {"step": 0, "observations": [[0]]}).status == 400
    assert local.ask("POST", f"{path}/act", {"step": 0, "observations": SEEN}).status == 200


def test_reset_begins_the_next_episode(local: Local) -> None:
    path = local.begin(random_seed=3)
    assert local.ask("POST", f"{path}/reset").about["episode"] == 0
    for step in range(3):
        local.ask("POST", f"{path}/act", {"step": step, "observations": SEEN})
    assert local.ask("POST", f"{path}/reset").about == {
        "session": path.rpartition("/")[2],
        "step": 0,
        "episode": 1,
        "act": "sampled",
        "random_seed": 3,
        "expires_in": 600.0,
    }
    assert local.ask("POST", f"{path}/reset").about["episode"] == 1, "sent again, it is the same"
    second = local.ask("POST", f"{path}/act", {"step": 0, "observations": SEEN})
    later = local.begin(random_seed=3, episode=1)
    assert (
        local.ask("POST", f"{later}/act", {"observations": SEEN}).about["actions"]
        == (second.about["actions"])
    )


def test_sessions_end_when_nobody_asks(local: Local, clock: Clock) -> None:
    idle, used = local.begin(), local.begin()
    for _ in range(3):
        clock.now += 250
        assert local.ask("POST", f"{used}/act", {"observations": SEEN}).status == 200
    lost = local.ask("POST", f"{idle}/act", {"observations": SEEN})
    assert (lost.status, lost.code) == (404, "session_expired")
    assert "600 seconds" in lost.about["error"]["message"]
    assert local.ask("GET", used).status == 200
    metrics = local.ask("GET", "/metrics").body.decode()
    assert "oryx_serve_sessions 1\n" in metrics
    assert 'oryx_serve_sessions_ended_total{why="expired"}' in metrics


def test_ended_sessions_and_those_of_another_process(local: Local, policy: PolicyArtifact) -> None:
    path = local.begin()
    assert local.ask("DELETE", path).status == 204
    assert local.ask("DELETE", path).code == "session_expired"
    restarted = make_local(policy)
    assert restarted.ask("POST", f"{path}/act", {"observations": SEEN}).code == "session_lost"
    restarted.close()


def test_a_full_server_says_when_to_come_back(local: Local, clock: Clock) -> None:
    paths = [local.begin() for _ in range(5)]
    full = local.ask("POST", "/v1/sessions")
    assert (full.status, full.code) == (503, "sessions_full")
    assert 1 <= int(full.headers["retry-after"]) <= 600
    assert local.ask("POST", "/v1/act", {"observations": SEEN}).status == 200
    local.ask("DELETE", paths[2])
    fresh = local.begin(act="greedy")  # in the place of another, of which nothing is left
    clean = local.ask("POST", "/v1/act", {"observations": SEEN, "act": "greedy"})
    told = local.ask("POST", f"{fresh}/act", {"observations": SEEN})
    assert told.about["actions"] == clean.about["actions"]
    clock.now += 601
    assert local.ask("POST", "/v1/sessions").status == 201


def test_too_many_that_wait_are_told_to_come_back(local: Local) -> None:
    told = local.ask_all([Ask("POST", "/v1/act", {"observations": SEEN})] * 9)
    assert sorted(each.status for each in told) == [200] * 6 + [503] * 3
    busy = next(each for each in told if each.status == 503)
    assert (busy.code, busy.headers["retry-after"]) == ("busy", "1")


def test_long_steps_are_computed_beside_the_event_loop(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play() -> list[bytes]:
        path = local.begin(random_seed=8)
        asked = [Ask("POST", f"{path}/act", {"step": 0, "observations": SEEN})]
        asked += [Ask("POST", "/v1/act", {"observations": SEEN, "random_seed": 1})] * 3
        return [each.body.replace(path[13:].encode(), b"") for each in local.ask_all(asked)]

    short = play()
    monkeypatch.setattr(local.service.engine, "longest_step", 2 * LONG)
    assert play() == short


def test_states_are_of_one_policy(local: Local, policy: PolicyArtifact) -> None:
    state = local.ask("POST", "/v1/act", {"observations": SEEN}).about["state"]
    again = local.ask("POST", "/v1/act", {"observations": SEEN, "state": state})
    assert again.status == 200
    assert again.about["step"] == 1
    twin = make_local(policy)  # a restart
    told = twin.ask("POST", "/v1/act", {"observations": SEEN, "state": state})
    assert told.body == again.body
    twin.close()
    for other in (make_local(policy, seed=7), make_local(make_policy("bc", SPECS["discrete"]))):
        told = other.ask("POST", "/v1/act", {"observations": SEEN, "state": state})
        assert (told.status, told.code) == (409, "other_policy")
        other.close()


def test_damaged_states_are_refused(local: Local) -> None:
    state = local.ask("POST", "/v1/act", {"observations": SEEN}).about["state"]
    changed = state[:60] + ("B" if state[60] == "A" else "A") + state[61:]
    for text in ("", "AAAA", state[:-4], state[:40], f"{state}AAAA", changed, "é"):
        told = local.ask("POST", "/v1/act", {"observations": SEEN, "state": text})
        assert (told.status, told.code) == (400, "invalid_request"), text[:20]
    for name in ("random_seed", "episode"):
        told = local.ask("POST", "/v1/act", {"observations": SEEN, "state": state, name: 1})
        assert told.status == 400


def test_tokens(policy: PolicyArtifact) -> None:
    other = "fedcba9876543210"
    local = make_local(policy, tokens=[TOKEN, other])
    for path in ("/v1/policy", "/metrics", "/nowhere", "/v1/sessions/x"):
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            told = local.ask("GET", path, **header)
            assert (told.status, told.code) == (401, "unauthorized")
            assert told.headers["www-authenticate"] == "Bearer"
        basic = local.ask("GET", path, authorization=f"Basic {TOKEN}")
        assert basic.status == 401
    for token in (TOKEN, other):
        assert local.ask("GET", "/v1/policy", authorization=f"Bearer {token}").status == 200
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert local.ask("GET", path).status == 200
    local.close()
