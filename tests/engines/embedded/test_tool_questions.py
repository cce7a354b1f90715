"""Small models with all help are asked tool questions. SmolLM2 may choose the wrong tool, but what it calls can be run."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from support.commands import ANTIPHON, environment

from antiphon.settings.settings import models_directory
from antiphon.settings.sources import load
from bench.models.questions import QUESTIONS, TOOLS, Question

pytestmark = [pytest.mark.slow, pytest.mark.smollm2, pytest.mark.timeout(600)]

# One question for each tool.
ASKED = QUESTIONS[::5]
# The models, and how large a part of the answers must be right. The better one is asked where it was pulled: the tests do not
# download it.
PULLED = sorted(models_directory(load({})).glob("qwen2.5-coder-1.5b*.gguf"))
MODELS = {"smollm2": 0.0, **{str(path): 0.8 for path in PULLED}}
CALLS = {tool["name"]: jsonschema_rs.validator_for(tool["parameters"]) for tool in TOOLS}


@contextmanager
def serving(model: str, cache: Path) -> Iterator[str]:
    """The URL of a gateway that gives this model all help."""
    command = [*ANTIPHON, "serve", "--model", model, "--port", "0"]
    # One thread: several wait for one another, and that takes very long on a busy machine.
    all_help = environment(cache) | {"ANTIPHON_HELP": "full", "ANTIPHON_MODEL_THREADS": "1"}
    process = subprocess.Popen(command, env=all_help, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().removeprefix("Antiphon is ready at ").strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def ask(url: str, question: Question, **fields: Any) -> list[dict[str, Any]]:
    """The calls that the model made, except for one that was cut off."""
    body = {"input": question.text, "tools": TOOLS, "temperature": 0, "max_output_tokens": 100, "store": False, **fields}
    request = urllib.request.Request(f"{url}/responses", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        output = json.loads(answer.read())["output"]
    return [item for item in output if item["type"] == "function_call" and item["status"] == "completed"]


@pytest.mark.parametrize("model", MODELS, ids=[Path(model).name for model in MODELS])
def test_every_call_is_of_an_offered_tool_and_follows_its_schema(model: str, model_cache: Path) -> None:
    with serving(model, model_cache) as url:
        answers = [ask(url, question) for question in ASKED]
        required = ask(url, ASKED[0], tool_choice="required")
    assert required, "it calls a tool where it must"
    for call in (call for calls in (*answers, required) for call in calls):
        assert call["name"] in CALLS
        CALLS[call["name"]].validate(json.loads(call["arguments"]))
    called = [[(call["name"], json.loads(call["arguments"])) for call in calls] for calls in answers]
    right = [question for question, calls in zip(ASKED, called, strict=True) if question.is_answered_by(calls)]
    assert len(right) >= MODELS[model] * len(ASKED), called
