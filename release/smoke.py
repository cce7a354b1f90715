"""Tries an installed Antiphon as its user would: `python -I smoke.py VERSION SOURCES`, in an empty folder.

It needs nothing but the package itself. What is tried: the library, the command, and a gateway in front of an engine, with a
streamed response that is stored and read back after a restart.
"""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "smoke"}]}


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


ANSWER = chunk({"role": "assistant", "content": ""}) + chunk({"content": "It "}) + chunk({"content": "works."})
ANSWER += chunk({}, "stop") + b"data: [DONE]\n\n"


class TinyEngine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self._answer(200 if found else 404, "application/json", json.dumps(MODELS if found else {}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        found = self.path == "/v1/chat/completions"
        self._answer(200 if found else 404, "text/event-stream", ANSWER if found else b"")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def engine() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), TinyEngine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.contextmanager
def gateway(engine: str, data: str) -> Iterator[str]:
    """Its URL. At the end it is asked to stop, and must do so in order."""
    environment = os.environ | {"ANTIPHON_DATA_DIR": data, "ANTIPHON_LOG_LEVEL": "warning"}
    command = [*ANTIPHON, "serve", "--port", "0", "--upstream", engine]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready.startswith("Antiphon is ready at "), f"it printed {ready!r}"
        yield ready.split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, f"it ended with {process.returncode}"
    finally:
        process.kill()
        process.stdout.close()


ANTIPHON = [str(Path(sys.executable).with_name("antiphon"))]


def request(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        content: bytes = answer.read()
        return content


def try_the_library(version: str, sources: Path) -> None:
    import antiphon

    assert antiphon.__version__ == version, f"it is version {antiphon.__version__}, not {version}"
    home = Path(antiphon.__file__ or "").resolve()
    assert not home.is_relative_to(sources), f"{home} is in the sources"
    for name in antiphon.__all__:
        assert hasattr(antiphon, name), f"antiphon.{name} is missing"
    # One streamed answer, translated without a gateway.
    Path("answer.sse").write_bytes(ANSWER)
    shown = subprocess.run([*ANTIPHON, "replay", "answer.sse"], capture_output=True, text=True, check=True).stdout
    assert "event: response.completed" in shown, shown


def try_the_command(version: str) -> None:
    shown = subprocess.run([*ANTIPHON, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown == f"antiphon {version}\n", shown
    subprocess.run([*ANTIPHON, "serve", "--help"], capture_output=True, check=True)
    subprocess.run([*ANTIPHON, "models", "--json"], capture_output=True, check=True)


def try_a_gateway(data: str) -> None:
    with engine() as upstream:
        with gateway(upstream, data) as url:
            stream = request(f"{url}/responses", {"model": "tiny", "input": "Does it work?", "stream": True})
            events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
            assert events[0]["type"] == "response.created", events[0]
            assert events[-1]["type"] == "response.completed", events[-1]
        id = events[-1]["response"]["id"]
        with gateway(upstream, data) as url:
            stored = json.loads(request(f"{url}/responses/{id}"))
            assert stored["output"][0]["content"][0]["text"] == "It works.", stored


def main(version: str, sources: str) -> None:
    try_the_library(version, Path(sources).resolve())
    try_the_command(version)
    with tempfile.TemporaryDirectory() as data:
        try_a_gateway(data)
    print(f"antiphon {version} on Python {sys.version.split()[0]}: the library, the command and a gateway work")


if __name__ == "__main__":
    main(*sys.argv[1:])
