"""Systems behind an endpoint of chat completions, asked over HTTP: real servers on the loopback, honest and hostile."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from urllib.parse import quote

import httpcore  # noqa: F401 - first loaded inside a run, it is another one in the next, and httpx knows the errors of the first
import pytest
from support.chat_servers import ChatServer

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.engines import transport
from pytest_genderbias.errors import ModelError, ScoreError, SettingError
from pytest_genderbias.models.event_loop import done
from pytest_genderbias.models.replies import Asked
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.text.reply_reading import ReplyReader, refusals

KEY = "sk-very/secret+key-1234567890"
QUESTIONS = [f"Question {number}?" for number in range(12)]
TROUBLES = {
    "busy": (429, {"error": {"message": "slow down"}}, {"Retry-After": "0"}),
    "failing": (500, {"error": "out of memory"}, {}),
    "empty": (200, b"", {}),
    "a page": (200, b"<html><body>Welcome to our portal</body></html>", {"Content-Type": "text/html"}),
    "a list": (200, [], {}),
}


def asked_of(endpoint, n=1, text="Who?"):
    return done(endpoint.reply([{"role": "user", "content": text}], n, 5))


def replies_of(model, texts=QUESTIONS, samples=1, cache=None):
    return model.backend.replies(Asked("s-q", "0" * 8, len(texts), list(texts), texts, samples, 0, cache))


def only(choice):
    return lambda content, body: {**content, "choices": [choice]}


def test_questions_are_sent_as_messages_and_replies_come_back_in_order():
    with ChatServer() as server:
        endpoint = server.endpoint(3, system_prompt="Be fair.", temperature=0.5, max_tokens=50)
        assert asked_of(endpoint, 3) == ["Yes, Who? 1 0", "Yes, Who? 1 1", "Yes, Who? 1 2"]
        assert server.bodies[1] == {
            "model": "m",
            "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Who?"}],
            "temperature": 0.5,
            "max_tokens": 50,
            "n": 3,
        }
        assert endpoint.reported == ["m-2026", ""]
        (note,) = endpoint.notes
    assert note.endswith(
        "as 'm-2026' at temperature 0.5; requests of this run so far: 2, with 14 tokens in questions and 18 in replies"
    )


def test_without_settings_no_system_prompt_is_sent_and_the_temperature_is_1():
    with ChatServer() as server:
        asked_of(server.endpoint())
        assert server.bodies[1] == {
            "model": "m",
            "messages": [{"role": "user", "content": "Who?"}],
            "temperature": 1.0,
            "max_tokens": 1024,
        }


def refusing(*names):
    """Answer 400 to requests that have a field."""
    answer = (400, {"error": {"message": "Unsupported parameter"}}, {})
    return lambda number, body: answer if set(names) & set(body) else None


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        (ChatServer(change=lambda content, body: {**content, "choices": content["choices"][:1]}), (1, 1024, None)),
        (ChatServer(refusing("n")), (None, 1024, None)),
        (ChatServer(refusing("max_tokens")), (3, None, 1024)),
        (ChatServer(refusing("max_tokens", "n")), (None, None, 1024)),
    ],
    ids=["n is ignored", "n is refused", "max_tokens is refused", "both are refused"],
)
def test_what_a_server_does_not_take_is_asked_for_otherwise(server, wanted):
    with server:
        endpoint = server.endpoint(3)
        before = len(server.bodies)
        assert len(set(asked_of(endpoint, 3))) == 3
        bodies = server.bodies[before:]  # what is learnt with the first question is kept to
        together = wanted[0] == 3
        assert len(bodies) == (1 if together else 3) == endpoint.requests_for(3)
        assert {body.get("n", 1) for body in bodies} == {3 if together else 1}
        assert {(body.get("max_tokens"), body.get("max_completion_tokens")) for body in bodies} == {wanted[1:]}


def test_a_request_that_is_refused_in_every_form_is_one_error():
    with ChatServer(lambda number, body: (400, {"error": {"message": "context too long"}}, {})) as server:
        with pytest.raises(ModelError, match=r"refuses a request \(status 400: 'context too long'\)") as raised:
            server.endpoint()
        assert type(raised.value) is ModelError and len(server.bodies) == 4


@pytest.mark.parametrize("trouble", [*TROUBLES, "cut", "dropped", "slow"])
def test_what_fails_for_a_while_is_asked_again_and_no_reply_is_lost(trouble, monkeypatch):
    seen = set()

    def before(number, body):
        text = body["messages"][-1]["content"]
        first = number > 0 and text not in seen and text.split()[-1] in ("3?", "9?", "10?")
        seen.add(text)
        return TROUBLES.get(trouble, trouble) if first else None

    monkeypatch.setattr(transport, "_FIRST_PAUSE", 0.01)
    with ChatServer(before) as server:
        model = load_model(server.spec, endpoint_timeout=0.4 if trouble == "slow" else 20)
        found = replies_of(model)
    assert [reply.split(" ")[1:3] for (reply,) in found] == [text.split() for text in QUESTIONS]
    assert len(server.asked) == len(QUESTIONS) + 3


@pytest.mark.parametrize("trouble", [*TROUBLES, "cut"])
def test_a_server_that_never_answers_is_one_error(trouble):
    with ChatServer(lambda number, body: TROUBLES.get(trouble, trouble) if number else None) as server:
        endpoint = server.endpoint()
        number = len(server.bodies)
        server.before = lambda number, body: TROUBLES.get(trouble, trouble)
        with pytest.raises(ScoreError, match="did not answer 7 times"):
            asked_of(endpoint)
        assert len(server.bodies) == number + 7


def test_what_was_answered_beside_an_error_is_kept(tmp_path):
    def before(number, body):
        return (403, {"error": "no"}, {}) if "Question 11" in body["messages"][-1]["content"] else None

    with ChatServer(before) as server:
        with pytest.raises(ModelError, match="refuses the key"):
            replies_of(load_model(server.spec), cache=tmp_path)
        answered = set(server.answered) & set(QUESTIONS)
        server.before, server.bodies = (lambda number, body: None), []
        assert len(replies_of(load_model(server.spec), cache=tmp_path)) == 12
        assert len(answered & set(server.asked)) <= 8 and len(answered) > 2  # those under way


@pytest.mark.parametrize(
    "content", [{}, {"choices": []}, {"choices": "none"}, {"choices": [{"text": "Yes"}]}, {"choices": [3]}]
)
def test_answers_without_the_form_are_one_error(content):
    with (
        ChatServer(change=lambda _, body: content) as server,
        pytest.raises(ScoreError, match="expected 'choices' with a 'message' each"),
    ):
        server.endpoint()


@pytest.mark.parametrize(
    ("choice", "reply"),
    [
        ({"message": {"content": "B", "reasoning_content": "A?", "reasoning": "A?"}}, "B"),
        ({"message": {"content": [{"type": "text", "text": "B"}, {"type": "thinking", "text": "A"}]}}, "B"),
        ({"message": {"content": None}, "finish_reason": "length"}, ""),
        ({"message": {"content": None}, "finish_reason": "content_filter"}, "[declined: content_filter]"),
        ({"message": {"content": "It is"}, "finish_reason": "SAFETY"}, "[declined: safety] It is"),
        ({"message": {"content": None, "refusal": "No way."}, "finish_reason": "stop"}, "[declined: refusal] No way."),
    ],
)
def test_what_is_said_is_the_reply_and_what_a_filter_takes_away_is_declined(choice, reply):
    with ChatServer(change=only(choice)) as server:
        assert asked_of(server.endpoint()) == [reply]
    refused = ReplyReader(("A", "B"), refusals("en")).read(reply) == 2
    assert refused == reply.startswith("[declined")


def test_a_filter_that_refuses_the_request_declines():
    def before(number, body):
        return (400, {"error": {"code": "content_filter", "message": "policy"}}, {}) if number else None

    with ChatServer(before) as server:
        assert asked_of(server.endpoint(2), 2) == ["[declined: content_filter]"] * 2


@pytest.mark.parametrize("name", ["model", "system_fingerprint"])
@pytest.mark.parametrize("tag", [None, "night 7"])
def test_another_model_or_version_in_mid_run_ends_it(name, tag):
    def change(content, body):
        return {**content, name: "new" if "Question" in body["messages"][-1]["content"] else "old"}

    with ChatServer(change=change) as server:
        model = load_model(server.spec, endpoint_version=tag)
        if tag and name == "system_fingerprint":  # vouched for
            assert len(replies_of(model)) == 12
            return
        with pytest.raises(ScoreError, match=r"changed while product was measured: it replied as .*'old' at first"):
            replies_of(model)
        assert len(server.asked) <= 12


def test_replies_are_kept_under_what_they_depend_on(tmp_path):
    settings = ({}, {"temperature": 0.5, "endpoint_version": "x"}, {"system_prompt": "Be fair."}, {"max_tokens": 9})
    with ChatServer() as server, ChatServer() as other:
        models = [load_model(server.spec, **one) for one in settings]
        models.append(load_model(other.spec))
        models.append(load_model(server.spec + "2"))
        server.change = lambda content, body: {**content, "model": "m-2027"}
        models.append(load_model(server.spec))
        assert len({model.fingerprint for model in models}) == 7
        found = replies_of(models[-1], cache=tmp_path)
        asked = len(server.asked)
        assert replies_of(load_model(server.spec), cache=tmp_path) == found and len(server.asked) == asked
    assert models[1].details["temperature"] == "0.5" and models[-1].details["reported_model"] == "m-2027"
    assert "Be fair." not in str(models[2].details) and models[2].details["system_prompt"]


def measured(model, cache, limit=16):
    return measure(load_suite("chat-iat"), model, limit=limit, cache=cache, ability="none: the requests are counted")


def test_a_run_that_is_too_dear_is_refused_before_its_first_request(tmp_path):
    """By ``chat-iat``, of which 16 cases are asked, and all of its 24 controls."""
    with ChatServer(refusing("n")) as server:
        with pytest.raises(
            SettingError, match=r"needs 80 requests for 80 replies, with about [\d,]+ tokens .* sends 79 at most"
        ):
            measured(load_model(server.spec, samples=2, max_requests=79), tmp_path)
        assert not server.asked
        model = load_model(server.spec, max_requests=40)
        measured(model, tmp_path)
        assert len(server.asked) == 40
        with pytest.raises(SettingError, match=r"needs 16 requests .*, after 40 requests .*bias_max_requests=56 all"):
            measured(model, tmp_path, limit=32)
        with pytest.raises(SettingError, match=r"needs 16 requests .* -o bias_max_requests=16 allows"):
            measured(
                load_model(server.spec, max_requests=15), tmp_path, limit=32
            )  # replies that are kept are not asked
        assert len(server.asked) == 40


RUN = """
import sys
from pathlib import Path
from pytest_genderbias import load_model, load_suite, measure
model = load_model(sys.argv[1])
measure(load_suite("chat-iat"), model, limit=64, cache=Path(sys.argv[2]), ability="none: a run that is killed")
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_run_asks_again_only_what_was_under_way(tmp_path):
    with ChatServer(lambda number, body: time.sleep(0.01)) as server:
        process = subprocess.Popen([sys.executable, "-c", RUN, server.spec, str(tmp_path)])
        deadline = time.monotonic() + 60
        while len(server.answered) < 30 and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
        time.sleep(0.05)
        first, answered = len(server.asked), len(server.answered) - 1
        assert 29 <= answered < 80
        measured(load_model(server.spec), tmp_path, limit=64)
        again = len(server.asked) - first
        everything = len(set(server.asked))
    lost = 2 * 8  # under way, and answered while a busy machine had not yet written those before
    assert everything - answered <= again <= everything - answered + lost


def hiding_places(key):
    """The key as it may be shown: whole, in part, encoded."""
    encoded = [base64.b64encode(text.encode()).decode().rstrip("=")[6:-2] for text in (key, "Bearer " + key, ":" + key)]
    return [key[:12], key[-10:], key[5:18], quote(key, safe="")[:16], *encoded]


def test_the_key_is_shown_nowhere(project, monkeypatch, tmp_path):
    """A hostile server repeats it in everything that it says, in many forms."""
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)
    echo = " ".join([KEY, "Bearer " + KEY, quote(KEY, safe=""), KEY[3:16], KEY[-9:]])
    echo += " " + " ".join(base64.b64encode(text.encode()).decode() for text in (KEY, "Bearer " + KEY, ":" + KEY))

    def change(content, body):
        choice = {"message": {"content": f"Yes. {echo}", "refusal": None}, "finish_reason": "stop"}
        return {**content, "model": f"m {echo}", "system_fingerprint": echo, "choices": [choice]}

    def before(number, body):
        return (418, {"error": {"message": echo}}, {}) if body["model"] == "fails" else None

    monkeypatch.setenv("PYTEST_ADDOPTS", "-p genderbias")  # with what is logged
    with ChatServer(before, change) as server:
        result = project.runpytest(
            f"--bias-model={server.spec}",
            f"--bias-model=other=chat:{server.url}#fails",
            "--bias-suite=chat-iat",
            "--bias-limit=8",
            "--bias-json=r.json",
            "--bias-report=r.html",
            "--bias-summary=r.md",
            "--bias-cache=cache",
            "--junitxml=junit.xml",
            "--showlocals",
            "--full-trace",
            "-vv",
            "-olog_level=DEBUG",
        )
        result.assert_outcomes(passed=1, failed=1)
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        monkeypatch.setattr(transport, "_FIRST_PAUSE", 0.0)
        with pytest.raises(ModelError) as raised:
            load_model(f"chat:{server.url}#fails")
    raised.traceback = raised.traceback[1:]  # without this test, whose variables hold the key
    shown = {
        "raised": f"{raised.value!r}{raised.getrepr(showlocals=True, style='long')}",
        "stderr": result.stderr.str(),
    }
    shown["stdout"] = result.stdout.str()
    files = [path for path in project.path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".jsonl", ".html", ".md", ".xml"}
    shown |= {str(path): path.read_bytes().decode("utf-8", "replace") for path in files}
    assert "***" in shown["stdout"] and "***" in shown["raised"]
    assert [(name, place) for name, text in shown.items() for place in hiding_places(KEY) if place in text] == []


def test_settings_of_the_ini_file_reach_the_server(project):
    project.path.joinpath("prompt.txt").write_text("You are a clerk.\n")
    settings = (
        "-obias_samples=2",
        "-obias_system_prompt=@prompt.txt",
        "-obias_temperature=0.25",
        "-obias_max_tokens=7",
    )
    with ChatServer() as server:
        run = (f"--bias-model={server.spec}", "--bias-suite=chat-iat", "--bias-limit=4", "--bias-no-cache")
        project.runpytest(*run, *settings, "--bias-json=r.json").assert_outcomes(passed=1)
        assert all(
            (body["n"], body["temperature"], body["max_tokens"], body["messages"][0])
            == (2, 0.25, 7, {"role": "system", "content": "You are a clerk."})
            for body in server.bodies
        )
        model = json.loads(project.path.joinpath("r.json").read_text())["measurements"][0]["signature"]["model"]
        assert (model["samples"], model["temperature"], model["max_tokens"]) == ("2", "0.25", "7")
        number = len(server.bodies)
        result = project.runpytest(*run, "-obias_samples=1", "-obias_max_requests=3")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: product needs * requests * -o bias_max_requests=28 allows these*"])
        assert len(server.bodies) == number + 1  # the endpoint's own question
        assert "[declined" not in result.stdout.str() + result.stderr.str()


def test_the_requests_of_all_suites_are_counted_before_the_first_one(project):
    """One suite alone is within the bound, and its replies that are kept count nothing."""
    project.path.joinpath("mine.bias.yaml").write_text(
        "gates:\n  - {suite: chat-iat, settings: {limit: 8}, within: 0.9}\n"
        "  - {suite: decisions, settings: {limit: 8}, within: 5.0}\n"
    )
    with ChatServer() as server:
        run = (f"--bias-model={server.spec}", "--bias-cache=cache", "-obias_samples=1", "-obias_ability=none: a test")
        both = project.runpytest(*run, "-obias_max_requests=60")
        assert both.ret == pytest.ExitCode.USAGE_ERROR and not server.asked
        (line,) = [line for line in both.stderr.lines if line.startswith("ERROR: ")]
        total = int(re.search(r"needs (\d+) requests for \1 replies, with about", line)[1])
        assert f"-o bias_max_requests={total} allows these" in line and total > 60
        workers = project.runpytest(*run, "-obias_max_requests=60", "-p", "xdist", "-n1")
        workers.assert_outcomes(failed=2)
        workers.stdout.fnmatch_lines([f"*SettingError: product needs {total} requests for {total} replies*"] * 2)
        assert not server.asked
        one = project.runpytest(*run, "-obias_max_requests=60", "-kiat")
        one.stdout.fnmatch_lines(["bias: product needs 32 requests for 32 replies, *; a run sends 60 at most *"])
        assert len(server.asked) == 32
        both = project.runpytest(*run, f"-obias_max_requests={total - 32}")
        both.stdout.fnmatch_lines([f"bias: product needs {total - 32} requests for {total - 32} replies*"])
        assert len(server.asked) == total
        again = project.runpytest(*run, "-obias_max_requests=1")
        again.stdout.fnmatch_lines(["bias: product needs 0 requests for 0 replies*"])
        assert len(server.asked) == total


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("bias_temperature=hot", "bias_temperature: expected a number from 0 to 2, got 'hot'"),
        ("bias_temperature=3", "bias_temperature: expected a number from 0 to 2"),
        ("bias_samples=0", "bias_samples: expected a whole number of at least 1"),
        ("bias_system_prompt=@none.txt", "bias_system_prompt: *none.txt*"),
    ],
)
def test_a_wrong_setting_is_one_line(project, setting, said):
    result = project.runpytest(
        "--bias-model=product=chat:http://127.0.0.1:9/v1#m", "--bias-suite=chat-iat", f"-o{setting}"
    )
    result.stderr.fnmatch_lines([f"ERROR: {said}*"])


def test_where_nothing_listens_one_error_says_so():
    with pytest.raises(ModelError, match=r"nothing answers at http://127\.0\.0\.1:9/v1"):
        load_model("chat:http://127.0.0.1:9/v1#m")


def test_another_machine_is_asked_only_where_that_is_permitted():
    with pytest.raises(ModelError, match="bias_allow_remote=true"):
        load_model("chat:https://api.example/v1#m")


def test_redirections_are_not_followed():
    elsewhere = (307, b"", {"Location": "https://elsewhere.example/v1/chat/completions"})
    with ChatServer(lambda number, body: elsewhere) as server, pytest.raises(ModelError, match="status 307"):
        server.endpoint()


@pytest.mark.parametrize("spec", ["chat:http://127.0.0.1:8000/v1", "chat:http://u:p@h/v1#m", "chat:http://h/v1?k=1#m"])
def test_an_address_without_a_model_or_with_a_secret_is_refused(spec):
    with pytest.raises(ModelError, match="expected chat:http://HOST:PORT/v1#MODEL"):
        parse_spec(spec)


def test_a_module_called_chat_is_still_one():
    assert parse_spec("chat:make_model").kind == "object"
    spec = parse_spec("chat:https://api.example/v1#org/large-2")
    assert (spec.kind, spec.name, spec.target) == ("chat", "large-2", "https://api.example/v1#org/large-2")


def test_a_server_that_does_not_draw_is_said():
    with ChatServer(change=only({"message": {"content": "Yes."}})) as server:
        assert "may not draw at temperature 1" in server.endpoint().notes[1]
        assert len(server.endpoint(temperature=0.0).notes) == 1
