"""One recorded request as the page shows it: the exchange is run again, and shown step by step."""

import re
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange.steps import ListTools, RunTools, ToolCall
from antiphon.core.recording.environment_values import EnvironmentValues
from antiphon.core.recording.explanations import explain_error, explain_notice
from antiphon.core.recording.prompt_changes import Asked, PromptChange, closest, compare
from antiphon.core.recording.recording import Recording
from antiphon.core.recording.rerun import TOOLS, Moment, Rerun, ToolRun, run_again
from antiphon.core.stream.chat_stream import chat_to_members
from antiphon.errors import ApiError, counted, shortened
from antiphon.patterns import late_pattern
from antiphon.server.inspector.recordings import RecordedRequest, to_outcome
from antiphon.server.inspector.redaction import HIDDEN, redacted, without_seals
from antiphon.server.inspector.rows import Row, hide

Json = dict[str, Any]

NOT_RUN = "The request was refused before it ran: there is nothing to run again."
PASSED_ON = "The request was passed on to the engine as it came, and so was the answer: there is nothing to run again."
# Characters of what a tool returned, in the line about it.
LONGEST_OUTPUT = 200
LEFT_OUT = "The recording was left out: it was too large, or others needed the memory."
# A chunk as engines send it.
_CHUNK = late_pattern(r"\s*(?P<field>(?:[a-z]{1,8}: ?)?)(?:(?P<json>\{.*\})|(?P<word>\[[A-Z]{1,8}\]))\s*", re.DOTALL)


class Opened:
    """What is needed of a request to show it, as it is now: it may still run."""

    def __init__(self, request: RecordedRequest, *, seals: bool) -> None:
        """`seals`: what was in the seals of the request is shown."""
        recording = request.recording
        # A copy: the exchange may add to it while a thread runs this one again.
        values = EnvironmentValues(*map(copy, msgspec.structs.astuple(recording.environment_values)))
        self.hides_seals = bool(values.opened) and not seals
        self.recording: Recording = structs.replace(
            recording,
            calls=[*recording.calls],
            pieces=recording.pieces.copy(),
            times=recording.times[:],
            environment_values=without_seals(values) if self.hides_seals else values,
        )
        self.row: Row = request.row.shown()
        self.arrived = request.arrived
        self.outcome = request.outcome
        self.path, self.headers, self.is_json = request.path, request.headers, request.is_json
        # Why it cannot be run again; None: it can.
        not_run = PASSED_ON if request.row.status == "passed" else NOT_RUN
        self.why_not = not_run if request.row.id is None else LEFT_OUT if recording.is_left_out else None

    @property
    def size(self) -> int:
        return self.recording.size


def to_view(opened: Opened, previous: Opened | None, *, bodies: bool) -> Json:
    """`previous`: the turn before. `bodies`: texts are shown."""
    rerun = _run_again(opened)
    view = {
        "row": msgspec.to_builtins(opened.row),
        "client": _client(opened),
        "request": _as_read(opened),
        "history": msgspec.json.decode(opened.recording.history),
        "asks": _asks(opened, rerun),
        "timeline": [_moment(moment, opened.arrived) for moment in rerun.moments],
        "chunks": [{"ask": chunk.ask, "text": chunk.data.decode("utf-8", "replace")} for chunk in rerun.chunks],
        "response": msgspec.to_builtins(rerun.response) if opened.outcome is not None and rerun.ended else None,
        "notices": [{"text": notice, "explanation": explain_notice(notice)} for notice in rerun.notices],
        "error": _error(opened.row, rerun.error),
        "changes": _changes(opened, rerun, previous),
        **_exactness(opened, rerun, bodies=bodies),
    }
    return view if bodies else _without_bodies(view, opened.row)


def _run_again(opened: Opened) -> Rerun:
    return run_again(opened.recording) if opened.why_not is None else Rerun()


def _client(opened: Opened) -> Json:
    body = opened.recording.body
    value = text = None
    try:
        if opened.is_json:
            value = msgspec.json.decode(body)
        else:
            text = body.decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
    return {"path": opened.path, "headers": opened.headers or None, "body": value, "text": text, "redacted": False}


def _as_read(opened: Opened) -> Json | None:
    """The request in the form of the Responses API, where that is not what the client sent."""
    request: Json | None = msgspec.json.decode(opened.recording.request or b"null")
    return request


def _asks(opened: Opened, rerun: Rerun) -> list[Json]:
    times: dict[int | None, float] = {}
    refusals: dict[int | None, ApiError] = {}
    for moment in rerun.moments:
        if moment.kind == "ask":
            times[moment.ask] = moment.at
        elif moment.kind == "refused" and moment.result[0] == "refused":
            refusals[moment.ask] = moment.result[1]
    sizes = [0] * len(rerun.asks)
    for chunk in rerun.chunks:
        if 0 <= chunk.ask < len(sizes):
            sizes[chunk.ask] += len(chunk.data)
    return [
        {
            "engine": ask.engine,
            "dialect": ask.dialect,
            "at": _since(times.get(at), opened.arrived),
            "chat": chat_to_members(ask.chat),
            "refused": _short_error(refusals.get(at)),
            "bytes": sizes[at],
            "purpose": ask.purpose,
        }
        for at, ask in enumerate(rerun.asks)
    ]


def _since(at: float | None, arrived: float) -> float | None:
    return None if at is None else round(max(0.0, at - arrived), 4)


def _short_error(error: ApiError | None) -> Json | None:
    return None if error is None else {"code": error.code, "message": error.message}


def _moment(moment: Moment, arrived: float) -> Json:
    event = msgspec.to_builtins(moment.event) if moment.event is not None else None
    return {
        "at": _since(moment.at, arrived),
        "kind": moment.kind,
        "ask": moment.ask,
        "event": event,
        "type": event["type"] if event is not None else None,
        "chunk": moment.chunk,
        "note": _note(moment),
    }


def _note(moment: Moment) -> str | None:
    if moment.result is None:
        return None
    name, argument = moment.result
    return NOTES[name](argument) if name in NOTES else None


def _checked(outcome: CheckOutcome) -> str:
    if outcome.unfinished:
        return "A check did not come to an end in time."
    return "A check was passed." if outcome.complaint is None else f"A check complained: {outcome.complaint}"


def _usages(usages: Sequence[Any]) -> str:
    return f"The engine reported no usage: it was estimated for {len(usages)} answer{'s' if len(usages) != 1 else ''}."


# In one pane of three there is little room: the names come first.
def _tools(step: RunTools | ListTools) -> str:
    if isinstance(step, RunTools):
        return f"Runs {', '.join(map(_tool_name, step.calls))}."
    return f"Lists the tools of {', '.join(server.label for server in step.servers)}."


def _tool_name(call: ToolCall) -> str:
    return f"{call.kind} {call.namespace}/{call.name}" if call.namespace else _words(call.kind, call.name)


def _words(kind: str, name: str) -> str:
    return name if kind == name else f"{kind} {name}"


def _tool_run(run: ToolRun) -> str:
    name = run.call_id if run.call is None else _tool_name(run.call)
    ending = "failed" if run.result.failed else "ended"
    return f"{name} {ending} after {run.seconds:.3f} s: {shortened(run.result.output, LONGEST_OUTPUT)}"


def _listed(given: Any) -> str:
    label, listing = given
    if listing.error is not None:
        return f"{label} did not list its tools: {shortened(listing.error.message, LONGEST_OUTPUT)}"
    return f"{label} listed {counted(len(listing.tools), 'tool')}."


# What the caller of an exchange did → in words.
NOTES: dict[str, Callable[[Any], str | None]] = {
    "refused": lambda error: f"The engine refused: {error.message}",
    "abort": lambda error: f"The response was ended: {error.message}",
    "checked": _checked,
    TOOLS: _tools,
    "tool_result": _tool_run,
    "listed": _listed,
    "estimated": _usages,
    "counted": lambda tokens: f"The prompt has {tokens} tokens.",
    "probed": lambda facts: "It waited for the probe of tools.",
    "compacted": lambda given: "The history was compacted first.",
    "end": lambda error: None if error is None else f"It could not be stored: {error.message}",
}


def _error(row: Row, error: ApiError | None) -> Json | None:
    """`error`: of the exchange that was run again. The code of an HTTP answer says more than that of an event; and in a
    row, a long message is cut off."""
    if row.error is None:
        return None
    code, message = row.error.code, row.error.message
    if error is not None:
        code = error.code
        message = error.message if error.message.startswith(message.removesuffix("…")) else message
    meaning, what_to_do = explain_error(code)
    return {"code": code, "message": message, "explanation": meaning, "what_to_do": what_to_do}


def _exactness(opened: Opened, rerun: Rerun, *, bodies: bool) -> Json:
    reason = rerun.trouble
    if opened.recording.is_left_out:
        reason = LEFT_OUT
    elif opened.hides_seals:
        reason = HIDDEN
    elif bodies and reason is not None and rerun.detail is not None:
        reason = f"{reason} {rerun.detail}"
    elif reason is None and opened.outcome is not None:
        reason = _difference(opened, rerun)
    return {"exact": reason is None, "inexact_reason": reason}


def _difference(opened: Opened, rerun: Rerun) -> str | None:
    assert rerun.response is not None
    *_, last = rerun.events
    if last.sequence_number != opened.recording.last_number:
        return "Running it again gave another number of events: what is known of the engine changed while it ran."
    if to_outcome(rerun.response) != opened.outcome:
        return "Running it again gave another response: what is known of the engine changed while it ran."
    return None


# ---- the turn before -------------------------------------------------------------------------------------------------


def _changes(opened: Opened, rerun: Rerun, previous: Opened | None) -> Json | None:
    if previous is None:
        return None
    earlier, later = _prompts(_run_again(previous)), _prompts(rerun)
    if not earlier or not later:
        return None
    change = compare(closest(earlier, later[0]), later[0])
    return _change(change, previous.row.number)


def _prompts(rerun: Rerun) -> list[Asked]:
    return [Asked(ask.engine, ask.chat) for ask in rerun.asks if ask.purpose != "compaction"]


def _change(change: PromptChange, previous: int) -> Json:
    return {
        "previous": previous,
        "prefix_changed": change.where is not None,
        "where": None if change.where is None else structs.asdict(change.where),
        "why": change.why,
        "shared_messages": change.shared_messages,
        "messages": change.messages,
        "shared_share": change.shared_share,
        "added": change.added,
    }


# ---- without texts ---------------------------------------------------------------------------------------------------


def _without_bodies(view: Json, row: Row) -> Json:
    client, error = view["client"], view["error"]
    return view | {
        "row": msgspec.to_builtins(row.redacted()),
        "client": client
        | {"body": redacted(client["body"]), "text": client["text"] and hide(client["text"]), "redacted": True},
        "request": redacted(view["request"]),
        "history": redacted(view["history"]),
        "asks": [ask | {"chat": redacted(ask["chat"]), "refused": redacted(ask["refused"])} for ask in view["asks"]],
        "timeline": [moment | {"event": redacted(moment["event"]), "note": None} for moment in view["timeline"]],
        "chunks": [chunk | {"text": _redacted_chunk(chunk["text"])} for chunk in view["chunks"]],
        "response": redacted(view["response"]),
        "notices": [notice | {"text": hide(notice["text"])} for notice in view["notices"]],
        "error": error and error | {"message": hide(error["message"])},
    }


def _redacted_chunk(text: str) -> str:
    """The JSON of a chunk, with the name of its field; or a word of the protocol, such as [DONE]."""
    found = _CHUNK.fullmatch(text)
    if found is None:
        return hide(text)
    field, json, word = found["field"], found["json"], found["word"]
    if word is not None:
        return text
    try:
        return field + msgspec.json.encode(redacted(msgspec.json.decode(json))).decode()
    except (msgspec.DecodeError, RecursionError):
        return hide(text)
