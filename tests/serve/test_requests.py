"""Wrong requests get a 4xx with one sentence, and leave no trace that could be forged."""

import json
import logging
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from exports import SPECS, make_policy
from malformed import FINE, make_body
from openapi_spec_validator import validate
from serving import FEW, Local, Told, make_local

from oryx_marl.errors import OryxError
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.serve import access, logs
from oryx_marl.serve.limits import ServeLimits

SMALL = {"linear_width": 8, "recurrent_width": 8}


@pytest.fixture(scope="module")
def policy() -> PolicyArtifact:
    return make_policy("bc", SPECS["discrete"], SMALL)


@pytest.fixture(scope="module")
def local(policy: PolicyArtifact) -> Iterator[Local]:
    found = make_local(policy)
    yield found
    found.close()


def require_error(told: Told, status: int | None = None) -> None:
    """A 4xx with a code and a sentence, in one line, without anything of this machine."""
    assert 400 <= told.status < 500, told
    assert status is None or told.status == status, told
    assert set(told.about) == {"error"}
    assert set(told.about["error"]) == {"code", "message"}
    message = told.about["error"]["message"]
    assert message
    assert len(message) < 700
    assert message.isprintable()
    for secret in ("Traceback", "site-packages", "/src/", ".py"):
        assert secret not in message


def test_malformed_bodies(local: Local) -> None:
    rng = random.Random(0)
    path = local.begin()
    for _ in range(300):
        body = make_body(rng)
        target = rng.choice(["/v1/act", f"{path}/act"])
        require_error(local.ask("POST", target, body))
    assert local.ask("GET", path).about["step"] == 0
    assert local.ask("POST", f"{path}/act", FINE).status == 200


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({}, "observations are missing"),
        ({"observations": [[0] * 5]}, "one entry for each of 3 agents, got 1"),
        ({"observations": {"ship": [0]}}, "there is no agent ['ship']"),
        ({"observations": [["1"] * 5, [0] * 3, [0] * 4]}, "ant must be a list of numbers"),
        ({"observations": [[1e39] * 5, [0] * 3, [0] * 4]}, "numbers that are not finite"),
        ({**FINE, "action_mask": [[0] * 4] * 3}, "action_mask of ant allows no action"),
        ({**FINE, "action_mask": [["a"] * 4] * 3}, "action_mask of ant must be a list of numbers"),
        ({**FINE, "rewards": [1, 2, "x"]}, "the reward of cat must be a list of numbers"),
        ({**FINE, "noise": [[0] * 4]}, "noise must be 3 lists of 4 finite numbers"),
        ({**FINE, "act": "boldly"}, 'act must be "sampled", "greedy" or a temperature'),
        ({**FINE, "act": True}, "act must be"),
        ({**FINE, "random_seed": -1}, "random_seed must be a whole number from 0"),
        ({**FINE, "random_seed": True}, "random_seed must be a whole number"),
        ({**FINE, "seen": 1}, "there is no entry 'seen'; there are: observations"),
        ({**FINE, "state": 5}, "state must be a text"),
        (b'{"observations": 1, "observations": 2}', "is there twice"),
        (b"[" * 1500 + b"]" * 1500, "no valid JSON"),
        (b'{"observations": [NaN]}', "no valid JSON"),
        (b"[1]", "must be a JSON object"),
    ],
)
def test_every_mistake_has_its_sentence(local: Local, about: Any, sentence: str) -> None:
    told = local.ask("POST", "/v1/act", about)
    require_error(told, 400)
    assert sentence in told.about["error"]["message"]


def test_colons_in_texts_are_no_second_names(local: Local) -> None:
    told = local.ask("POST", "/v1/act", b'{"observations": {"a:b": [1]}}')
    assert "there is no agent ['a:b']" in told.about["error"]["message"]


def test_boxes_refuse_masks() -> None:
    local = make_local(make_policy("bc", SPECS["box"], SMALL))
    told = local.ask("POST", "/v1/act", {**FINE, "action_mask": [[1, 1]] * 3})
    require_error(told, 400)
    assert "actions of a box have no mask" in told.about["error"]["message"]
    local.close()


def test_paths_methods_and_kinds(local: Local) -> None:
    for path in ("/", "/v1", "/v1/sessions/", "/v1/sessions/x/y", "/v1/sessions/x/", "/v1/act/"):
        require_error(local.ask("GET", path), 404)
    require_error(local.ask("GET", "/v1/sessions/" + "x" * 65), 404)
    wrong = local.ask("GET", "/v1/act")
    require_error(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    require_error(local.ask("POST", "/v1/act", FINE, content_type="text/plain"), 415)
    require_error(local.ask("POST", f"{local.begin()}/reset", {"x": 1}), 400)


def test_large_bodies_are_not_read(policy: PolicyArtifact) -> None:
    local = make_local(policy, replace(FEW, max_body=20_000))
    told = local.ask("POST", "/v1/act", {**FINE, "state": "x" * 20_001})
    require_error(told, 413)
    assert told.headers["connection"] == "close"
    require_error(local.ask("POST", "/v1/act", b" " * 30_000, content_length="30000"), 413)
    local.close()


def test_limits_are_checked_at_the_start(policy: PolicyArtifact) -> None:
    with pytest.raises(OryxError, match="--max-body 100 is too small"):
        make_local(policy, replace(FEW, max_body=100))
    with pytest.raises(OryxError, match="--session-ttl must be greater than 0"):
        ServeLimits(session_ttl=0)


class Lines(logging.Handler):
    """What would be in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logs.OneLine("%(levelname)s %(message)s"))
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, logger = Lines(), logging.getLogger("oryx_marl.serve")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield handler.found
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_errors_inside_say_a_number_alone(
    local: Local, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("secret\n\x1b[31mforged line")

    monkeypatch.setattr(local.service.engine, "step", fail)
    told = local.ask("POST", "/v1/act", FINE)
    assert told.status == 500
    assert "secret" not in told.body.decode()
    number = told.about["error"]["message"].rpartition(" ")[2]
    (line,) = lines
    assert number in line
    assert "secret | \\x1b[31mforged line" in line
    assert line.isprintable()
    monkeypatch.undo()
    assert local.ask("POST", "/v1/act", FINE).status == 200


def test_the_access_log_repeats_nothing(policy: PolicyArtifact, lines: list[str]) -> None:
    local = make_local(policy, access_log=True)
    path = local.begin()
    local.ask("POST", f"{path}/act", FINE)
    local.ask("GET", "/\x1b[31m\nforged")
    local.ask("FORGED\n", "/v1/act")
    patterns = [
        r"POST /v1/sessions 201 [\d.]+ ms",
        r"POST /v1/sessions/\{session\}/act 200 [\d.]+ ms",
        r"- - 404 [\d.]+ ms",
        r"- /v1/act 405 [\d.]+ ms",
    ]
    assert len(lines) == len(patterns)
    for pattern, line in zip(patterns, lines, strict=True):
        assert re.fullmatch(f"INFO {pattern}", line)
    local.close()


def test_the_document_is_valid_openapi_and_true(local: Local) -> None:
    document = local.ask("GET", "/openapi.json").about
    validate(document)
    path = local.begin()
    named = {"observations": {"ant": [0.0] * 5}}
    answers = {
        "Policy": local.ask("GET", "/v1/policy"),
        "Session": local.ask("GET", path),
        "Answer": local.ask("POST", f"{path}/act", named),
        "StateAnswer": local.ask("POST", "/v1/act", FINE),
        "Error": local.ask("GET", "/nowhere"),
    }
    for name, told in answers.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.validate(told.about, schema)
    asked = {"Step": {**FINE, "step": 0}, "StateStep": FINE, "Begin": {"act": 0.5}}
    for name, about in asked.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.validate(about, schema)
    routes = local.service.app._routes
    assert set(document["paths"]) == set(routes)
    for name, methods in document["paths"].items():
        told = {method.upper() for method in methods} - {"PARAMETERS"}
        assert told == set(routes[name].handlers)


def test_the_page_loads_nothing(local: Local) -> None:
    told = local.ask("GET", "/docs")
    page = told.body.decode()
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert re.findall(r"(?:src|href)=['\"]?([^#'\" >]+)", page) == ["openapi.json"]
    assert "default-src 'none'" in told.headers["content-security-policy"]
    document = json.loads(local.ask("GET", "/openapi.json").body)
    for path in document["paths"]:
        assert path.replace("{", "&#123;") in page or path in page


def test_metrics_are_of_prometheus(local: Local) -> None:
    told = local.ask("GET", "/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [\d.e+-]+')
    text = told.body.decode()
    assert all(line.fullmatch(each) for each in text.splitlines())
    assert re.search(r'requests_total\{route="/v1/act",status="200"\} \d+', text)
    assert re.search(r'batch_rows_bucket\{le="\+Inf"\} \d+', text)
    assert re.search(r"resident_bytes [1-9]\d{6,}", text)


def test_strangers_need_a_token(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(access.VARIABLE, raising=False)
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(OryxError, match=r"give a token .*or say --no-token"):
            access.require_safe(host, [], no_token=False)
        access.require_safe(host, [], no_token=True)
        access.require_safe(host, ["x" * 16], no_token=False)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        access.require_safe(host, [], no_token=False)
    with pytest.raises(OryxError, match="not both"):
        access.require_safe("127.0.0.1", ["x" * 16], no_token=True)
    file = tmp_path / "token"
    with pytest.raises(OryxError, match="there is no token file"):
        access.read_tokens(file)
    for content, sentence in {"": "no token in", "short": "too short", "ü" * 20: "strange"}.items():
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(OryxError, match=sentence):
            access.read_tokens(file)
    file.write_text(f"{'a' * 32}\n\n{'b' * 32}\n")
    assert access.read_tokens(file) == ["a" * 32, "b" * 32]
    file.chmod(0o644)
    with pytest.warns(UserWarning, match="other users can read"):
        access.read_tokens(file)
    assert access.read_tokens(None) == []
    monkeypatch.setenv(access.VARIABLE, "c" * 20)
    assert access.read_tokens(None) == ["c" * 20]
