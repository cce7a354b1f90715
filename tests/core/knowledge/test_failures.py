"""What engines say when they fail, and what their clients are told."""

from typing import Any

import msgspec
import pytest
from support.engine import DONE, chunk
from support.exchanges import run_answers

from antiphon.core.knowledge.failures import (
    error_object_to_failure,
    failure_to_error,
    http_answer_to_error,
    http_answer_to_failure,
)

# (HTTP status, the engine's body) → (status, code, event code). Bodies as recorded, or as the engine's source words them.
CASES: list[tuple[str, int, Any, tuple[int, str | None, str]]] = [
    (
        "llama.cpp: too long",
        400,
        {"error": {"code": 400, "message": "request (5031 tokens) exceeds the available context size (2048 tokens), try "
                   "increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 5031, "n_ctx": 2048}},
        (400, "context_length_exceeded", "context_length_exceeded"),
    ),
    (
        "vLLM: too long",
        400,
        {"error": {"message": "This model's maximum context length is 2048 tokens. However, your prompt contains at least "
                   "2049 input tokens", "type": "BadRequestError", "param": "input_tokens", "code": 400}},
        (400, "context_length_exceeded", "context_length_exceeded"),
    ),
    (
        "SGLang: too long",
        400,
        {"object": "error", "message": "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
         "type": "BadRequestError", "param": None, "code": 400},
        (400, "context_length_exceeded", "context_length_exceeded"),
    ),
    (
        "LMDeploy: too long",
        400,
        {"message": "internal error happened, status code ResponseType.INPUT_LENGTH_ERROR", "code": 400},
        (400, "context_length_exceeded", "context_length_exceeded"),
    ),
    (
        "vLLM: no such model",
        404,
        {"error": {"message": "The model `nope` does not exist. Valid aliases: smollm2.", "type": "NotFoundError",
                   "param": "model", "code": 404}},
        (400, "model_not_found", "invalid_prompt"),
    ),
    ("Ollama: no such model", 404, {"error": {"message": "model 'nope' not found", "type": "not_found_error"}},
     (400, "model_not_found", "invalid_prompt")),
    ("llama.cpp: an image that it could not get", 500,
     {"error": {"code": 500, "message": "Failed to download image", "type": "server_error"}},
     (400, "invalid_image_url", "invalid_prompt")),
    (
        "llama.cpp: no images",
        500,
        {"error": {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to "
                   "provide the mmproj", "type": "server_error"}},
        (400, "unsupported_content", "invalid_prompt"),
    ),
    ("a template that raises", 500, {"error": {"message": "Jinja Exception: roles must alternate", "code": 500}},
     (400, None, "invalid_prompt")),
    ("a bad request", 400, {"error": {"message": "Expected 'messages' to be an array", "type": "invalid_request_error"}},
     (400, None, "invalid_prompt")),
    ("unprocessable", 422, {"detail": "wrong"}, (400, None, "invalid_prompt")),
    ("our key is wrong", 401, {"error": {"message": "Invalid API Key"}}, (502, "engine_key", "server_error")),
    ("no such route", 404, {"detail": "Not Found"}, (502, "engine_answer_not_understood", "server_error")),
    ("too many requests", 429, {"error": "slow down"}, (429, "rate_limit_exceeded", "rate_limit_exceeded")),
    ("still loading", 503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}},
     (503, "engine_unavailable", "server_error")),
    ("broken", 500, {"error": {"message": "CUDA out of memory"}}, (502, "engine_error", "server_error")),
    ("nothing to read", 500, None, (502, "engine_error", "server_error")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "status", "body", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_failure_becomes_the_right_error(name: str, status: int, body: Any, expected: tuple[int, str | None, str]) -> None:
    error = failure_to_error(http_answer_to_failure(status, msgspec.json.encode(body)))
    assert (error.status, error.code, error.event_code) == expected
    assert error.status != 500
    assert error.message


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"\xff\xfe", b"[1]", b'"text"', b"{}", b"[" * 9999])
def test_an_answer_in_no_known_shape_is_an_engine_error(body: bytes) -> None:
    error = failure_to_error(http_answer_to_failure(502, body))
    assert error.status == 502
    assert error.retry_after is not None


def test_retry_after_is_passed_on() -> None:
    assert http_answer_to_error(429, b"{}", 7.0).retry_after == 7.0
    assert http_answer_to_error(503, b"{}", 7.0).retry_after == 7.0


# (HTTP status, the engine's words) of failures that no other attempt can do anything about.
FUTILE = [
    (400, "Expected 'messages' to be an array"),
    (400, "the request exceeds the available context size"),
    (401, "Invalid API Key"),
    (403, "Forbidden"),
    (404, "model 'nope' not found"),
    (404, "Not Found"),
    (422, "wrong"),
]


@pytest.mark.parametrize(("status", "words"), FUTILE)
def test_where_another_attempt_is_futile_nobody_is_asked_to_wait_for_one(status: int, words: str) -> None:
    error = http_answer_to_error(status, msgspec.json.encode({"error": {"message": words}}), 7.0)
    assert error.retry_after is None
    assert error.retry_headers == {"x-should-retry": "false"}


def test_what_the_engine_says_about_another_attempt_counts_more_than_its_status() -> None:
    wanted = http_answer_to_error(400, b"{}", 7.0, should_retry=True)
    assert wanted.retry_headers == {"x-should-retry": "true", "Retry-After": "7"}
    unwanted = http_answer_to_error(503, b"{}", 7.0, should_retry=False)
    assert unwanted.retry_headers == {"x-should-retry": "false"}


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.2, "2"), (3600.0, "3600")])
def test_a_client_gets_whole_seconds_rounded_up(seconds: float, header: str) -> None:
    assert http_answer_to_error(429, b"{}", seconds).retry_headers["Retry-After"] == header


@pytest.mark.parametrize(
    ("error", "status"),
    [({"code": 400}, 400), ({"code": "400"}, 502), ({"code": 7}, 502), ("x", 502), (3, 502)],
)
def test_an_error_inside_a_stream_counts_by_its_code(error: Any, status: int) -> None:
    assert failure_to_error(error_object_to_failure(error)).status == status


def test_a_message_is_never_endless() -> None:
    assert len(failure_to_error(http_answer_to_failure(500, b"x" * 100_000)).message) < 3000


# An error in the middle of a stream, in every shape in which servers write one.
IN_A_STREAM: dict[str, bytes] = {
    "an object": b'data: {"error":{"message":"boom","type":"server_error","code":500}}\n\n',
    "a string": b'data: {"error":"boom","error_type":"generation"}\n\n',
    "an object with a detail": b'data: {"error":{"detail":"boom"}}\n\n',
    "beside choices": b'data: {"choices":[],"error":{"message":"boom"}}\n\n',
    "bare": b'data: {"object":"error","message":"boom","type":"BadRequestError","param":null,"code":40001}\n\n',
    "only its message": b'data: {"message":"boom","code":"x"}\n\n',
    "only its detail": b'data: {"detail":"boom"}\n\n',
    "a list": b'data: {"object":"error","detail":[{"msg":"boom"}]}\n\n',
    "an event of its own": b'event: error\ndata: {"message":"boom"}\n\n',
    "a field of its own": b'error: {"code":500,"message":"boom"}\n\n',
    "a line of JSON": b'{"error":{"message":"boom"}}\n\n',
}


@pytest.mark.parametrize("shape", IN_A_STREAM)
@pytest.mark.parametrize("end", [b"", DONE])
def test_an_error_in_a_stream_fails_the_response_and_is_reported(shape: str, end: bytes) -> None:
    response = run_answers({}, chunk({"content": "a"}) + IN_A_STREAM[shape] + end)[-1]["response"]
    assert response["status"] == "failed"
    assert "boom" in response["error"]["message"]
    assert [(item["status"], item["content"][0]["text"]) for item in response["output"]] == [("incomplete", "a")]


@pytest.mark.parametrize("error", [b'{"error":{}}', b'{"error":""}'])
def test_an_error_without_a_reason_is_a_failure_too(error: bytes) -> None:
    response = run_answers({}, chunk({"content": "a"}) + b"data: " + error + b"\n\n" + DONE)[-1]["response"]
    assert response["error"]["message"] == "The engine failed: no reason given"
