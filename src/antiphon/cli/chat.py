"""`antiphon chat`: a conversation in the terminal, through a gateway that is running."""

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any, TextIO

import typer

from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.cli.gateway_readiness import when_ready
from antiphon.settings.settings import Settings

PROMPT = "> "
HEADER = "{model} at {url}. Ctrl-C stops an answer, Ctrl-D ends."
STOPPED = "[stopped: this answer is not part of the conversation]"
NOTHING_ASKED = "nothing was asked. Give a prompt: `antiphon chat 'Why is the sky blue?'`"
# Seconds between two looks at how far a prompt is read, and for one look. The line of it goes when the answer begins.
LOOK, PATIENCE = 0.5, 2.0
WAITING = "waiting for the answer"
CLEARED = "\r\x1b[2K"
# The events before anything is shown.
OPENING = frozenset({"response.created", "response.queued", "response.in_progress"})
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
# What a model writes must not control the terminal.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# How the text of an event is shown.
TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
REASONING = frozenset({"response.reasoning_text.delta", "response.reasoning.delta", "response.reasoning_summary_text.delta"})


def run_chat(settings: Settings, prompt: str | None, *, model: str | None, url: str | None) -> int:
    """Returns the exit code: 1 if the only answer failed."""
    client = GatewayClient(choose_gateway(settings, url), key_for(settings))
    is_conversation = prompt is None and sys.stdin.isatty()
    default = _default_model(client)
    model = model or default
    chat = Chat(client, model, Screen(sys.stdout))
    if is_conversation:
        typer.echo(HEADER.format(model=model or "the engine's model", url=client.url))
        _converse(chat.ask)
        return 0
    asked = prompt if prompt is not None else sys.stdin.read()
    if not asked.strip():
        raise GatewayFailed(NOTHING_ASKED)
    return 0 if chat.ask(asked) else 1


def _default_model(client: GatewayClient) -> str | None:
    """The one that the gateway lists first; None: it lists none."""
    models = when_ready(client, lambda: client.member("/v1/models", "data"))
    return models[0]["id"] if models else None


def _converse(ask: Callable[[str], bool]) -> None:
    """Until the end of the input."""
    with suppress(ImportError):
        # Lines can be edited and repeated, where Python has that.
        import readline  # noqa: F401
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.echo("  Ctrl-D ends.")
            continue
        if line.strip():
            ask(line)


class Screen:
    """Where an answer is shown as it comes. Reasoning is for people only, and dimmed."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._for_people = output.isatty()
        self._dimmed = False
        self._at_start = True

    def text(self, text: str) -> None:
        self._dim(False)
        self._write(text)

    def reasoning(self, text: str) -> None:
        if self._for_people:
            self._dim(True)
            self._write(text)

    def note(self, note: str) -> None:
        """On a line of its own, where errors go."""
        self.end()
        typer.echo(note, err=True)

    def end(self) -> None:
        self._dim(False)
        if not self._at_start:
            self._write("\n")

    def _dim(self, dimmed: bool) -> None:
        if dimmed != self._dimmed:
            self._dimmed = dimmed
            self._output.write(DIM if dimmed else PLAIN + "\n")

    def _write(self, text: str) -> None:
        self._output.write(CONTROL.sub("?", text) if self._for_people else text)
        self._output.flush()
        self._at_start = text.endswith("\n")


class ReadingView:
    """What is waited for, for people, until there is something else to show. The gateway is asked for it now and then, beside
    the answer: it knows how far the engine has read the prompt."""

    def __init__(self, client: GatewayClient, output: TextIO) -> None:
        self._client = client
        self._output = output
        self._ended = threading.Event()
        self._shows = False
        self._watcher: threading.Thread | None = None

    def begin(self, response_id: str) -> None:
        """The response runs. Without a terminal, there is nobody to see it."""
        if self._output.isatty() and self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, args=[response_id], daemon=True)
            self._watcher.start()

    def close(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    def _watch(self, response_id: str) -> None:
        began = time.monotonic()
        while not self._ended.wait(LOOK):
            state, is_read = self._state(response_id)
            if not self._ended.is_set():
                # Something moves, so that nobody thinks that nothing happens.
                self._show(state if is_read else f"{state}, {time.monotonic() - began:.0f} s")
        if self._shows:
            self._write(CLEARED)

    def _state(self, response_id: str) -> tuple[str, bool]:
        """What the gateway says of the response, and whether that is how much of the prompt is read. It may be too busy to say
        so, or too old."""
        with suppress(GatewayFailed, KeyError):
            running = self._client.get("/inspector/engines", timeout=PATIENCE)["running"]
            for run in running:
                if run["id"] == response_id:
                    return str(run["state"]), run.get("prompt_read") is not None
        return WAITING, False

    def _show(self, state: str) -> None:
        self._shows = True
        self._write(f"{CLEARED}{DIM}[{state}]{PLAIN}")

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


class Chat:
    def __init__(self, client: GatewayClient, model: str | None, screen: Screen) -> None:
        self._client = client
        self._model = model
        self._screen = screen
        # The response that the next one continues.
        self._previous: str | None = None

    def ask(self, text: str) -> bool:
        """Shows the answer. False: there is none, or not all of it."""
        body = {"model": self._model, "input": text, "stream": True, "previous_response_id": self._previous}
        try:
            with (
                closing(ReadingView(self._client, sys.stdout)) as reading,
                closing(self._client.stream("/v1/responses", {k: v for k, v in body.items() if v is not None})) as events,
            ):
                # All of them: what is left unread when the connection is closed looks like a client that has gone.
                is_complete = any(list(map(partial(self._show, reading), events)))
            if self._client.notice is not None:
                self._screen.note(f"[{self._client.notice}]")
            return is_complete
        except GatewayFailed as failed:
            self._screen.note(f"[{failed}]")
        except KeyboardInterrupt:
            self._screen.note(STOPPED)
        return False

    def _show(self, reading: ReadingView, event: Mapping[str, Any]) -> bool:
        """True: the answer is complete."""
        kind = event["type"]
        if kind == "response.created":
            reading.begin(event["response"]["id"])
        elif kind not in OPENING:
            reading.close()
        if kind in TEXT:
            self._screen.text(event["delta"])
        elif kind in REASONING:
            self._screen.reasoning(event["delta"])
        elif kind == "response.completed":
            self._screen.end()
            self._previous = event["response"]["id"]
            return True
        elif kind == "response.incomplete":
            self._previous = event["response"]["id"]
            self._screen.note(f"[cut off: {event['response']['incomplete_details']['reason']}]")
        elif kind == "response.failed":
            self._screen.note(f"[{event['response']['error']['message']}]")
        elif kind == "error":
            self._screen.note(f"[{event['message']}]")
        return False
