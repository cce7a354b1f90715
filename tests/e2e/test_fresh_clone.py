"""A fresh clone needs only Python, make and a package index: after `make serve` it answers."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from support.commands import environment
from support.streams import check_stream, parse

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.smollm2, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[str]:
    """The URL of a gateway that `make serve` started in a fresh clone. Its model was downloaded before."""
    clone = tmp_path_factory.mktemp("clone") / "antiphon"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    make = [shutil.which("make") or "make", "serve", f"PYTHON={sys.executable}", "ARGS=--model smollm2 --port 0"]
    process = subprocess.Popen(
        make, cwd=clone, env=environment(model_cache), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        ready = next(line for line in process.stdout if line.startswith("Antiphon is ready at "))
        yield ready.removeprefix("Antiphon is ready at ").removesuffix("/v1\n")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


def test_a_streamed_answer_to_curl_in_under_a_minute(url: str) -> None:
    began = time.monotonic()
    body = '{"model": "smollm2", "input": "Say hi.", "stream": true, "max_output_tokens": 16}'
    curl = ["curl", "-sN", f"{url}/v1/responses", "-H", "content-type: application/json", "-d", body]
    answered = subprocess.run(curl, capture_output=True, check=True)
    assert check_stream(parse(answered.stdout))["output"]
    assert time.monotonic() - began < 60


def test_a_streamed_answer_to_the_sdk(url: str) -> None:
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        (model,) = client.models.list()
        with client.responses.stream(model=model.id, input="Name a colour.", max_output_tokens=16) as events:
            kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds
    assert kinds[-1] in ("response.completed", "response.incomplete")
