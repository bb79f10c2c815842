"""The client of a server: what it sends, what it makes of answers, when it asks again, and that the key is shown
nowhere.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import math
import os
import queue
import re
import signal
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest
from support.served import CompletionServer
from support.tiny_checkpoints import make_network, tokenizer

from pytest_genderbias.engines import served_client, transport
from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.errors import ModelError, ScoreError, SettingError, installing
from pytest_genderbias.models.loading import load_model

URL = "http://127.0.0.1:8000/v1"
KEY = "sk-very-secret-1234"


def completed(body):
    """Answer as vLLM does: the value of each token is minus its id / 10, and two tokens are listed in each place."""
    prompts = [[3, 4]] if isinstance(body["prompt"], str) else body["prompt"]
    choices = []
    for index, prompt in enumerate(prompts):
        new = [7] * body["max_tokens"]
        shown = [*(prompt if body.get("echo") else []), *new]
        values = [None if body.get("echo") and at == 0 else -token / 10 for at, token in enumerate(shown)]
        tops = [
            None if value is None else {f"token_id:{token}": value, "token_id:1": -0.1}
            for token, value in zip(shown, values, strict=True)
        ]
        names = [f"token_id:{token}" for token in shown]
        choices.append({"index": index, "logprobs": {"tokens": names, "token_logprobs": values, "top_logprobs": tops}})
    return {"choices": choices, "usage": {"prompt_tokens": sum(map(len, prompts))}}


class Server:
    """Answers requests of a client without a network. ``before`` may answer a request for completions instead: a
    response, an error, or None.
    """

    def __init__(self, before=lambda number, body: None, change=lambda content: content):
        self.before, self.change = before, change
        self.requests, self.bodies, self.pauses = [], [], []

    def __call__(self, request):
        self.requests.append(request)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m", "max_model_len": 32}]})
        if request.url.path == "/version":
            return httpx.Response(200, json={"version": "0.9"}, headers={"server": "uvicorn"})
        body = json.loads(request.content)
        self.bodies.append(body)
        answer = self.before(len(self.bodies), body)
        if isinstance(answer, Exception):
            raise answer
        return answer or httpx.Response(200, json=self.change(completed(body)))

    def client(self, url=URL, **settings):
        return ServedClient(url, "m", "chat", pause=self.pauses.append, transport=httpx.MockTransport(self), **settings)


def test_prompts_are_sent_as_token_ids_and_their_values_come_back_in_order():
    def mixed(content):
        return {**content, "choices": content["choices"][::-1]}

    server = Server(change=mixed)
    client = server.client()
    answers = client.ask([[5, 6], [8, 9, 2]], most_likely=2)
    (body,) = server.bodies
    assert body["prompt"] == [[5, 6], [8, 9, 2]]
    assert (body["echo"], body["logprobs"], body["max_tokens"], body["temperature"]) == (True, 2, 0, 0.0)
    assert [answer.token_ids for answer in answers] == [[5, 6], [8, 9, 2]]
    assert math.isnan(answers[1].log_probabilities[0])
    np.testing.assert_array_equal(answers[1].log_probabilities[1:], [-0.9, -0.2])
    assert answers[1].top == [{}, {9: -0.9, 1: -0.1}, {2: -0.2, 1: -0.1}]
    assert client.max_length == 31
    assert client.facts == {"server": "uvicorn 0.9"}
    assert client.ask([[5, 6]])[0].tokens_read == 2  # alone, the count of the server is of this prompt


def test_many_prompts_are_cut_into_requests_and_stay_in_order():
    server = Server()
    prompts = [[2, i] for i in range(100)] + [[2] * 5000, [3] * 5000, [4, 5]]
    answers = server.client().ask(prompts)
    assert [answer.token_ids for answer in answers] == prompts
    assert all(len(body["prompt"]) <= 32 and sum(map(len, body["prompt"])) <= 8192 for body in server.bodies)


def test_text_is_sent_to_learn_the_ids_of_the_server():
    assert Server().client().own_token_ids("a text") == [3, 4]


def test_generated_tokens_are_ids_drawn_from_the_whole_distribution():
    server = Server()
    assert server.client().generate([[5], [6]], 3, 1.0, 11) == [[7, 7, 7], [7, 7, 7]]
    (body,) = server.bodies
    assert (body["max_tokens"], body["temperature"], body["seed"], body["top_p"], body["top_k"]) == (
        3,
        1.0,
        11,
        1.0,
        -1,
    )
    assert "echo" not in body


@pytest.mark.parametrize(
    ("failure", "pauses"),
    [
        (lambda: httpx.Response(429, headers={"Retry-After": "3"}), [3.0, 3.0]),
        (lambda: httpx.Response(429, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}), [0.0, 0.0]),
        (lambda: httpx.Response(429, headers={"Retry-After": "-3"}), [0.0, 0.0]),
        (lambda: httpx.Response(429, headers={"Retry-After": "299"}), [299.0, 299.0]),
        (lambda: httpx.Response(429, headers={"Retry-After": "soon"}), [0.5, 1.0]),
        (lambda: httpx.Response(503), [0.5, 1.0]),
        (lambda: httpx.Response(200, content=b'{"choices": [{"ind'), [0.5, 1.0]),
        (lambda: httpx.ReadTimeout("late"), [0.5, 1.0]),
        (lambda: httpx.RemoteProtocolError("closed"), [0.5, 1.0]),
        (lambda: httpx.ConnectError("refused"), [0.5, 1.0]),
        (lambda: httpx.Response(200, headers={"content-encoding": "gzip"}, content=b"{}"), [0.5, 1.0]),
        (lambda: httpx.Response(429, headers={"Retry-After": f"Thu, 01 Jan {10**30} 00:00:00 GMT"}), [0.5, 1.0]),
    ],
)
def test_what_fails_for_a_while_is_asked_again_after_a_pause(failure, pauses):
    server = Server(before=lambda number, body: failure() if number < 3 else None)
    assert server.client().ask([[5, 6]])[0].token_ids == [5, 6]
    assert server.pauses == pauses


def test_a_server_that_never_answers_is_one_error():
    server = Server(before=lambda number, body: httpx.Response(502))
    with pytest.raises(ScoreError, match=r"did not answer 7 times \(at last: status 502: 'Bad Gateway'\)"):
        server.client().ask([[5, 6]])
    assert server.pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize("late", [httpx.ReadTimeout("late"), httpx.WriteTimeout("late")])
def test_a_server_that_takes_too_long_is_an_error_that_names_the_flag(late):
    message = r"7 times \(at last: .*Timeout: late.* after 2.5 s, -o bias_endpoint_timeout=SECONDS waits longer\)"
    with pytest.raises(ScoreError, match=message):
        Server(before=lambda number, body: late).client(time_limit=2.5).ask([[5, 6]])


def test_a_request_without_an_answer_is_sent_again_after_the_time_limit():
    """By a real server, which waits for two seconds once."""
    with CompletionServer(make_network("llama"), tokenizer("llama"), trouble=["slow"]) as server:
        client = ServedClient(server.url, server.model, "chat", time_limit=0.5, pause=(pauses := []).append)
        for prompt in ([1, 300], [1, 301]):
            assert client.ask([prompt])[0].token_ids == prompt
    assert pauses and [body["prompt"] for body in server.bodies][:3] == [[[1, 300]], [[1, 301]], [[1, 301]]]


@pytest.mark.parametrize("asked", ["86400", "nan", "inf", "1e9", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_a_pause_that_no_run_waits_for_ends_it_and_is_said(asked):
    answer = httpx.Response(
        429, headers={"Retry-After": asked}, json={"error": {"message": "quota \x1b[31m\nof today"}}
    )
    server = Server(before=lambda number, body: answer)
    message = (
        rf"status 429: 'quota .*of today', and asks to wait .*\(Retry-After: '{asked}'\); a run waits 300 s at most"
    )
    with pytest.raises(ScoreError, match=message) as raised:
        server.client().ask([[5, 6]])
    assert "\x1b" not in str(raised.value) and len(server.bodies) == 1 and server.pauses == []


@pytest.mark.parametrize("status", [400, 422, 413, 404])
@pytest.mark.parametrize(
    "content",
    [
        b'{"error": {"message": "too\\nlong"}}',
        b'{"detail": "too\\nlong"}',
        b'{"message": "too long"}',
        b'{"error": "too long"}',
        b"too\nlong",
    ],
)
def test_what_a_server_refuses_is_said_by_an_error_that_can_be_caught(status, content):
    server = Server(before=lambda number, body: httpx.Response(status, content=content + b" " * 9000))
    with pytest.raises(ModelError, match=rf"refuses a request \(status {status}: 'too long'\)") as raised:
        server.client().ask([[5, 6]])
    assert type(raised.value) is ModelError


@pytest.mark.parametrize("status", [429, 503])
def test_what_a_busy_server_says_at_last_is_shown(status):
    server = Server(before=lambda number, body: httpx.Response(status, text="queue is full " * 99))
    with pytest.raises(ScoreError, match=rf"7 times \(at last: status {status}: 'queue is full ") as raised:
        server.client().ask([[5, 6]])
    assert len(str(raised.value)) < 700


_HEAD = b"HTTP/1.1 200 OK\r\n"
#: What a server sends at once, and then again and again, each a way in which no answer is ever whole.
ENDLESS = {
    "headers by the byte": (_HEAD + b"X-A: ", b"a"),
    "headers": (_HEAD, b"X-A: a\r\n"),
    "the body by the byte": (_HEAD + b"Content-Length: 99999\r\n\r\n", b" "),
    "a body without a length": (_HEAD + b"Connection: close\r\n\r\n", b" "),
    "chunks": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "promises": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "nothing": (b"", b""),
}


class Trickling(socketserver.BaseRequestHandler):
    """Names its model, and answers other requests for ever, in pieces that come well within the time limit."""

    def handle(self):
        seen = self.request.recv(1 << 16)
        if seen.startswith(b"GET /v1/models"):
            content = b'{"data": [{"id": "m"}]}'
            self.request.sendall(_HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
            return
        first, again = self.server.sends
        with suppress(OSError):
            self.request.sendall(first)
            while not self.server.over.wait(0.05):
                self.request.sendall(again)


@contextmanager
def trickling(first, again):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Trickling) as server:
        server.daemon_threads, server.sends, server.over = True, (first, again), threading.Event()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_address[1]
        server.over.set()
        server.shutdown()


@pytest.mark.parametrize("way", ENDLESS)
def test_the_time_limit_is_that_of_a_request_and_not_of_a_read(way, monkeypatch):
    monkeypatch.setattr(transport, "_ATTEMPTS", 1)
    with trickling(*ENDLESS[way]) as port:
        client = ServedClient(f"http://127.0.0.1:{port}/v1", "m", "chat", time_limit=0.4, pause=lambda seconds: None)
        begun = time.monotonic()
        with pytest.raises(ScoreError, match=r"after 0\.4 s, -o bias_endpoint_timeout=SECONDS waits longer"):
            client.ask([[5, 6]])
    assert client.facts == {"server": "unknown"}  # which never came either
    assert time.monotonic() - begun < 20


def test_the_time_limit_holds_for_an_encrypted_connection_that_is_never_made(monkeypatch):
    monkeypatch.setattr(transport, "_ATTEMPTS", 2)
    handshake = b"\x16\x03\x03\x40\x00\x02"  # a record of 16,384 bytes begins
    with trickling(handshake, b"\x00") as port, pytest.raises(ScoreError, match="did not answer 2 times"):
        ServedClient(f"https://127.0.0.1:{port}/v1", "m", "chat", time_limit=0.4, pause=lambda seconds: None)


class Endless(httpx.AsyncByteStream):
    """An answer of a mebibyte at a time that does not end."""

    sent = 0

    async def __aiter__(self):
        while self.sent < 2000:
            self.sent += 1
            yield b" " * (1 << 20)


def test_an_answer_that_does_not_end_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(transport, "_MOST_BYTES", 5 << 20)
    answer = Endless()
    server = Server(before=lambda number, body: httpx.Response(200, stream=answer))
    with pytest.raises(
        ScoreError, match="sends more than 5 MiB in answer to one request, which was not read to its end"
    ):
        server.client().ask([[5, 6]])
    assert answer.sent <= 7
    assert len(server.bodies) == 1  # it is not asked again


ASKS = """
import signal, sys
from pytest_genderbias.engines.served_client import ServedClient
signal.signal(signal.SIGINT, signal.default_int_handler)
client = ServedClient(sys.argv[1], "m", "chat")
try:
    client.ask([[n] * 4000 for n in range(40)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
"""


class Silent(BaseHTTPRequestHandler):
    """Names its model, and answers no request for completions. It notes when the client hangs up."""

    def do_GET(self):
        data = json.dumps({"data": [{"id": "m"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.events.put("asked")
        self.rfile.read(1)
        self.server.events.put("hung up")

    def log_message(self, *arguments):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_an_interruption_cancels_the_requests_under_way():
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.events = queue.Queue()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        process = subprocess.Popen(
            [sys.executable, "-c", ASKS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert [server.events.get(timeout=60) for _ in range(4)] == ["asked"] * 4
            process.send_signal(signal.SIGINT)
            assert [server.events.get(timeout=20) for _ in range(4)] == ["hung up"] * 4
            assert process.stdout.readline() == "interrupted\n" and process.poll() is None
            process.communicate("", timeout=20)  # and no thread keeps it
            assert process.returncode == 0 and server.events.empty()
        finally:
            process.kill()
            process.communicate()
            server.shutdown()


FORKS = """
child = os.fork()
if not child:
    ask(client)
    os._exit(0)
os.waitpid(child, 0)
ask(client)
"""
BESIDE = """
begin = asyncio.new_event_loop
def slow():
    time.sleep(0.3)
    return begin()
asyncio.new_event_loop = slow
ready = threading.Barrier(2)
def work():
    ready.wait()
    client = ServedClient(sys.argv[1], "m", "chat")
    ask(client)
    ask(client)
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
FIRST = """
import asyncio, os, sys, threading, time
from pytest_genderbias.engines.served_client import ServedClient
def ask(client):
    os.write(1, f"{client.ask([[5, 6]])[0].token_ids}\\n".encode())  # at once: print writes the line's end by itself
"""


class Keeping(Silent):
    """Answers all requests, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        data = json.dumps(completed(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.mark.parametrize(
    ("code", "times"),
    [
        pytest.param(
            'client = ServedClient(sys.argv[1], "m", "chat")\nask(client)\n' + FORKS,
            3,
            marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
            id="a process that was forked",
        ),
        pytest.param(BESIDE, 4, id="two threads that begin at once"),
    ],
)
def test_no_connection_is_taken_from_another_event_loop(code, times):
    """A loop waits for its own connections only: another one that asks through them ends in an error, or never hears
    the answer.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Keeping) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        ended = subprocess.run([sys.executable, "-c", FIRST + code, url], capture_output=True, text=True, timeout=60)
        server.shutdown()
    assert (ended.stdout, ended.returncode) == ("[5, 6]\n" * times, 0), ended.stderr


class Counted(httpx.AsyncHTTPTransport):
    """Says when its connections are closed."""

    def __init__(self):
        super().__init__()
        self.closed = threading.Event()

    async def aclose(self):
        await super().aclose()
        self.closed.set()


def test_connections_are_closed_when_nobody_has_the_client_any_more():
    """The event loop holds open connections, so that they would stay until the server ends them."""
    connections = Counted()
    with CompletionServer(make_network("llama"), tokenizer("llama")) as served:
        client = ServedClient(served.url, "local", "chat", transport=connections)
        assert len(client.ask([[5, 6], [7, 8]])) == 2 and connections._pool.connections
        assert not connections.closed.is_set()
        del client
        gc.collect()
        assert connections.closed.wait(60) and not connections._pool.connections


def test_an_error_cancels_the_requests_beside_it():
    async def answer(request):
        if request.url.path.endswith("models"):
            return httpx.Response(200, json={"data": [{"id": "m"}]})
        if request.url.path.endswith("version"):
            return httpx.Response(404)
        number = json.loads(request.content)["prompt"][0][0]
        asked.append(number)
        if number == 2:
            return httpx.Response(403)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    asked, cancelled = [], []
    client = ServedClient(URL, "m", "chat", transport=httpx.MockTransport(answer))
    with pytest.raises(ModelError, match="status 403"):
        client.ask([[n] * 8000 for n in range(1, 9)])
    deadline = time.monotonic() + 20
    while len(cancelled) < len(asked) - 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (
        2 in asked and set(cancelled) == set(asked) - {2} and len(asked) <= 5
    )  # four, and one more at most in the meantime


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_no_request_can_keep_is_refused(seconds):
    with pytest.raises(SettingError, match="endpoint_timeout should be a number of seconds above 0"):
        load_model("chat=http://127.0.0.1:9/v1#m", endpoint_timeout=seconds)


def test_the_time_limit_reaches_the_client(monkeypatch):
    limits = []
    monkeypatch.setattr(
        transport, "_connection", lambda url, limit, *others: limits.append(limit) or httpx.AsyncClient()
    )
    for settings in ({}, {"endpoint_timeout": 7.5}):
        with pytest.raises(ModelError, match="nothing answers"):
            load_model("chat=http://127.0.0.1:9/v1#m", **settings)
    assert limits == [300.0, 7.5]


def test_a_server_that_generates_at_least_one_token_is_asked_for_one_that_is_left_out():
    server = Server(
        before=lambda number, body: (
            None if body["max_tokens"] else httpx.Response(400, json={"error": {"message": "at least 1"}})
        )
    )
    client = server.client()
    for _ in range(2):
        (answer,) = client.ask([[5, 6]], most_likely=2)
        assert (answer.token_ids, len(answer.log_probabilities), len(answer.top)) == ([5, 6], 2, 2)
    assert [body["max_tokens"] for body in server.bodies[-2:]] == [1, 1]  # it is remembered
    assert client.own_token_ids("a text") == [3, 4]


def test_a_server_that_knows_no_further_fields_is_asked_without_them():
    server = Server(
        before=lambda number, body: httpx.Response(422, json={"detail": "extra fields"}) if "top_k" in body else None
    )
    client = server.client()
    assert client.ask([[5, 6]])[0].token_ids == [5, 6]
    client.ask([[5, 7]])
    assert "top_k" not in server.bodies[-1]
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"object": "list"}, "expected 'choices'"),
        ({"choices": "none"}, "expected 'choices'"),
        ({"choices": []}, "expected one for each"),
        ({"choices": [{"index": 1}]}, "expected one for each"),
    ],
)
def test_answers_without_the_form_are_one_error(content, message):
    with pytest.raises(ScoreError, match=message):
        Server(change=lambda _: content).client().ask([[5, 6]])


@pytest.mark.parametrize("logprobs", [None, [], {}, {"tokens": None}, {"tokens": "ab", "token_logprobs": {"a": 1}}])
def test_a_choice_without_values_has_none(logprobs):
    (answer,) = Server(change=lambda _: {"choices": [{"index": 0, "logprobs": logprobs}]}).client().ask([[5, 6]])
    assert (len(answer.log_probabilities), answer.token_ids, answer.top) == (0, None, [])


def test_strange_numbers_and_names_are_no_values():
    columns = {
        "tokens": ["token_id:5", "token_id:6", "token_id:-1", "token_id:²", "token_id:99999999999999999999", "a"],
        "token_logprobs": [None, "x", True, 10**400, float("inf"), -1],
        "top_logprobs": [None, [], {"a": -1.0}, {"token_id:4": None}, {"token_id:x": 1}, {}],
    }
    text = json.dumps({"choices": [{"logprobs": columns}]}).encode()
    (answer,) = Server(before=lambda number, body: httpx.Response(200, content=text)).client().ask([[1] * 6])
    np.testing.assert_array_equal(answer.log_probabilities, [np.nan, np.nan, np.nan, np.nan, np.inf, -1])
    assert answer.token_ids is None
    assert [list(top) for top in answer.top] == [[], [], [], [4], [], []]


def test_tokens_that_are_texts_have_no_ids():
    def as_texts(content):
        for choice in content["choices"]:
            choice["logprobs"]["tokens"] = ["the"] * len(choice["logprobs"]["tokens"])
        return content

    client = Server(change=as_texts).client()
    assert client.ask([[5, 6]])[0].token_ids is None
    with pytest.raises(ModelError, match="by their texts only"):
        client.generate([[5]], 1, 0.0, None)


@pytest.fixture
def logged():
    """What is logged, by loggers that pass nothing on, too."""
    text, root = io.StringIO(), logging.getLogger()
    handler, before = logging.StreamHandler(text), root.level
    others = [one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger) and not one.propagate]
    for logger in (root, *others):
        logger.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(before)
    for logger in (root, *others):
        logger.removeHandler(handler)


def test_the_key_is_in_the_header_and_nowhere_else(monkeypatch, logged):
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)
    server = Server(
        before=lambda number, body: (
            httpx.Response(401, json={"error": {"message": f"wrong key {KEY}"}}) if number > 1 else None
        )
    )
    client = server.client()
    client.ask([[5, 6]])
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in server.requests)
    with pytest.raises(ModelError, match=r"refuses the key \(status 401: 'wrong key \*\*\*'\)") as raised:
        client.ask([[5, 6]])
    assert KEY not in f"{raised.value}{raised.value!r}{client!r}{client.where}{dict(client.facts)}{logged.getvalue()}"
    assert "HTTP Request" in logged.getvalue()


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-very\x00secret", "sk-very\u2026secret"])
def test_a_key_that_no_header_can_have_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setattr(transport.os, "environ", {"GENDERBIAS_API_KEY": key})
    server = Server()
    with pytest.raises(ModelError, match="GENDERBIAS_API_KEY has a line break") as raised:
        server.client()
    assert "secret" not in f"{raised.value!r}{raised.value.__context__!r}"
    assert not server.requests


@pytest.mark.parametrize(
    "answer",
    [
        lambda: httpx.Response(200, json={"seen": f"Bearer {KEY}"}),
        lambda: httpx.Response(200, json={"choices": [{"index": KEY}]}),
        lambda: httpx.ReadError(f"header {KEY}"),
    ],
    ids=["another object", "an index", "an error"],
)
def test_what_repeats_the_key_is_shown_without_it(answer, monkeypatch):
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)
    with pytest.raises(ScoreError, match=r"\*\*\*") as raised:
        Server(before=lambda number, body: answer()).client().ask([[5, 6]])
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1\x7f", "https://-bad-.example\u2603/v1"])
def test_an_address_that_cannot_be_asked_is_one_error(url):
    server = Server()
    with pytest.raises(ModelError, match="is no address of a server"):
        server.client(url, allow_remote=True)
    assert not server.requests


def test_a_refusal_of_further_fields_is_no_error_while_another_request_learns_the_same():
    def refuse(number, body):
        if "top_k" not in body:
            return None
        client._extras = dict(served_client._BY_IDS)  # as another request does in the meantime
        return httpx.Response(422)

    server = Server(before=refuse)
    client = server.client()
    assert client.ask([[5, 6]])[0].token_ids == [5, 6]
    assert server.bodies[-1]["max_tokens"] == 0  # which was never refused


def test_without_a_key_no_header_is_sent(monkeypatch):
    monkeypatch.delenv("GENDERBIAS_API_KEY", raising=False)
    server = Server()
    server.client()
    assert all("authorization" not in request.headers for request in server.requests)


def test_redirections_are_not_followed():
    server = Server(
        before=lambda number, body: httpx.Response(307, headers={"Location": "https://elsewhere.example/v1"})
    )
    with pytest.raises(ModelError, match="status 307"):
        server.client().ask([[5, 6]])
    assert {request.url.host for request in server.requests} == {"127.0.0.1"}


@pytest.mark.parametrize("host", ["192.0.2.7", "gpu.example", "[2001:db8::1]", "127.0.0.1.example"])
def test_another_machine_is_asked_only_where_that_is_permitted(host, monkeypatch):
    server = Server()
    with pytest.raises(ModelError, match="-o bias_allow_remote=true"):
        server.client(f"http://{host}/v1")
    assert not server.requests
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)
    with pytest.raises(ModelError, match="without encryption") as raised:
        server.client(f"http://{host}/v1", allow_remote=True)
    assert KEY not in str(raised.value)
    assert not server.requests
    assert server.client(f"https://{host}/v1", allow_remote=True).ask([[5, 6]])[0].token_ids == [5, 6]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "127.8.8.8", "localhost:9", "[::1]:3", "0.0.0.0:8000", "[::]:8000"])
def test_this_machine_is_asked_with_or_without_a_key(host, monkeypatch):
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    assert Server().client(f"http://{host}/v1").max_length == 31


def test_another_name_of_the_model_is_refused_with_those_that_there_are():
    with pytest.raises(ModelError, match="has no model 'other'; it names 'm'"):
        ServedClient(URL, "other", "chat", transport=httpx.MockTransport(Server()))


def test_where_nothing_listens_one_error_says_so():
    with pytest.raises(ModelError, match=r"nothing answers at http://127\.0\.0\.1:9/v1"):
        load_model("chat=http://127.0.0.1:9/v1#m")


def test_without_httpx_one_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(transport, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=re.escape(installing("served"))):
        load_model("chat=http://127.0.0.1:9/v1#m")
