"""Connections that are slow, large, many or no HTTP at all, over a real socket."""

import http.client
import json
import logging
import random
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from exports import SPECS, make_policy
from malformed import FINE, make_body, make_raw
from serving import FEW, TOKEN, running, send_raw

import oryx_marl_runtime
from oryx_marl.serve.server import Service

SMALL = {"linear_width": 8, "recurrent_width": 8}
LIMITS = replace(FEW, request_timeout=1.0, keep_alive=2.0, max_connections=40, max_body=200_000)
SEEN = {"ant": [0.5] * 5, "bee": [0.1] * 3, "cat": [0.2] * 4}


@pytest.fixture(scope="module")
def service() -> Service:
    found = Service(make_policy("bc", SPECS["discrete"], SMALL), limits=LIMITS)
    found.engine.compile()
    return found


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with running(service) as found:
        yield found


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer.split()[1])


def connect_raw(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_whole_requests_are_answered(url: str) -> None:
    body = json.dumps(FINE).encode()
    head = b"POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    close = b"Connection: close\r\n"
    plain = head + close + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:]))
    chunked = head + close + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    for request in (plain, chunked):
        assert status_of(send_raw(url, request)) == 200
    pipelined = plain.replace(close, b"") + plain
    assert send_raw(url, pipelined).count(b"HTTP/1.1 200 OK") == 2
    for rest in (b"no request at all\r\n\r\n", b"GET /heal"):  # what is good is answered first
        assert send_raw(url, plain.replace(close, b"") + rest).count(b"HTTP/1.1 200 OK") == 1


def test_slow_requests_are_ended(url: str) -> None:
    head = b"POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    unfinished = [b"", b"GET /v1", b"\r\n\r\n", head, head + b"Content-Length: 50\r\n\r\n{"]
    for content in unfinished:
        began = time.monotonic()
        answer = send_raw(url, content)
        assert 0.8 < time.monotonic() - began < 3
        assert status_of(answer) == 408, content
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_slow"


def test_a_request_that_drips_is_ended(url: str) -> None:
    """Every byte in time does not make a request in time."""
    with connect_raw(url) as connection:
        began, answer = time.monotonic(), b""
        connection.settimeout(0.1)
        while not answer and time.monotonic() - began < 5:
            connection.sendall(b"x")
            try:
                answer = connection.recv(1000)
            except TimeoutError:
                continue
    assert time.monotonic() - began < 3
    assert status_of(answer) in (400, 408)


def test_idle_connections_are_closed(url: str) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    began = time.monotonic()
    answer = send_raw(url, request)  # until the server closes
    assert answer.count(b"HTTP/1.1 200") == 1
    assert 1.5 < time.monotonic() - began < 4


def test_large_headers_are_refused(url: str) -> None:
    line = b"X-Filler: " + b"y" * 1000 + b"\r\n"
    with connect_raw(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        answer = b""
        for _ in range(100):
            try:
                connection.sendall(line)
                time.sleep(0.001)
            except OSError:
                break
        connection.settimeout(3)
        try:
            answer = connection.recv(1000)
        except ConnectionResetError:
            return  # closed before we had read
    assert status_of(answer) == 431


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_large_bodies_are_refused_while_they_come(url: str, coding: str) -> None:
    head = b"POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    size = 3_000_000
    if coding == "length":
        content = head + b"Content-Length: %d\r\n\r\n" % size + b" " * size
    else:
        chunk = b"%x\r\n%s\r\n" % (1000, b" " * 1000)
        content = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3000
    answer = send_raw(url, content)
    assert status_of(answer) == 413
    assert b'"code":"too_large"' in answer


def test_too_many_connections(url: str) -> None:
    held = [connect_raw(url) for _ in range(LIMITS.max_connections)]
    for connection in held:  # those that have asked something are held open for longer
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status_of(connection.recv(1000)) == 200
    answer = send_raw(url, b"", seconds=5)
    assert status_of(answer) == 503
    assert b"retry-after: 1" in answer
    for connection in held:
        connection.close()
    time.sleep(0.3)
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    connection.request("GET", "/readyz")
    assert connection.getresponse().status == 200
    connection.close()


def test_what_is_no_http_is_refused_without_a_line_in_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(1)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # as logs.set_up does
    with caplog.at_level(logging.INFO, "oryx_marl.serve"):
        for _ in range(60):
            content = make_raw(rng)
            answer = send_raw(url, content)
            assert 400 <= status_of(answer) < 500, (content, answer)
    assert caplog.records == []


def test_many_clients_at_once(url: str) -> None:
    """Each has its own episode; those that keep the state themselves too."""

    def play(number: int) -> list[dict[str, int]]:
        keep = "client" if number % 2 else "server"
        with oryx_marl_runtime.connect(url, keep=keep, random_seed=number // 2) as player:
            return [player.act(SEEN) for _ in range(6)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(play, range(16)))
    assert found[::2] == found[1::2], "who keeps the state makes no difference"
    assert len({str(each) for each in found}) > 1


def test_two_thousand_malformed_requests(caplog: pytest.LogCaptureFixture) -> None:
    """Half of them wrong JSON, half wrong HTTP, with a token: only 4xx, and nothing in the log."""
    limits = replace(LIMITS, request_timeout=5.0)
    service = Service(
        make_policy("bc", SPECS["discrete"], SMALL), limits=limits, tokens=[TOKEN], access_log=True
    )
    rng, counted = random.Random(2), {}
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    with caplog.at_level(logging.INFO, "oryx_marl.serve"), running(service) as url:
        for number in range(2000):
            content = make_raw(rng)
            if number % 2:
                body = make_body(rng)
                head = f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                content = b"POST /v1/act HTTP/1.1\r\nHost: x\r\n" + head.encode() + body
            status = status_of(send_raw(url, content))
            counted[status] = counted.get(status, 0) + 1
        with oryx_marl_runtime.connect(url, token=TOKEN) as player:
            assert set(player.act(SEEN)) == set(SEEN)
    told = dict(re.findall(r'_total\{route="-",status="(\d+)"\} (\d+)', service.metrics.render()))
    assert int(told["400"]) > 400, "what is no HTTP is counted too"
    assert all(400 <= status < 500 for status in counted), counted
    assert counted[400] > 900
    assert caplog.records
    for record in caplog.records:
        assert record.levelname == "INFO"
        assert record.getMessage().isprintable()
        assert "script" not in record.getMessage()
