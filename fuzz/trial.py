"""One case against the gateway, and the verdict: None, or what is wrong."""

import asyncio
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import aiohttp
import msgspec
from support import completions, messages
from support.engine import OWN_FIELDS, Answer, Body, MockEngine, answer, call, text
from support.streams import TERMINAL, check_response, check_stream, parse

from fuzz.cases import CHAT, MESSAGES, RESPONSES, Case
from fuzz.target import Target

# In seconds. A gateway that takes longer hangs.
ANSWERED_WITHIN = 30.0
# Errors about the engine: its model did not do what the request requires, which no gateway can change.
OF_THE_ENGINE = {"answer_invalid"}
TRANSIENT = {502, 503, 504}


# Of a call: nothing, a text on which a bad pattern takes for ever, and a patch.
ARGUMENTS = ("{}", '{"input": "' + "a" * 40 + '!"}', '{"input": "*** Begin Patch\\n*** End Patch"}')


class Wrong(AssertionError):
    """The gateway did what it must not do."""


class FuzzEngine(MockEngine):
    """As strict as the mock engine. `body`: what it answers, if it has to be broken."""

    def __init__(self, kind: str = "mock") -> None:
        super().__init__(owned_by=kind, own_fields=OWN_FIELDS.get(kind, ()))
        self.otherwise = self._fitting
        self.objections: list[str] = []
        self.body: bytes | None = None
        objects_to = self.objects_to

        def noted(body: Body) -> str | None:
            if (wrong := objects_to(body)) is not None:
                self.objections.append(wrong)
            return wrong

        self.objects_to = noted

    def _fitting(self, body: Body) -> Answer:
        """What a model would answer: a call if it has to make one, or by chance, which depends on the request; else words."""
        # Nothing is kept of a hundred thousand requests.
        self.requests.clear()
        self.headers.clear()
        if self.body is not None:
            return self.body
        tools, choice = body.get("tools"), body.get("tool_choice")
        chance = crc32(msgspec.json.encode(body["messages"]))
        if tools and choice != "none" and (choice not in (None, "auto") or chance % 2):
            function = tools[chance % len(tools)]["function"]
            return answer(call(function["name"], ARGUMENTS[chance % len(ARGUMENTS)]), finish="tool_calls")
        return text("{}") if "response_format" in body else text("Hello", " world")


class Trial:
    """Cases against one gateway. Those with a broken engine run one at a time: its answer is the same for all requests."""

    def __init__(self, target: Target, engine: FuzzEngine, client: aiohttp.ClientSession) -> None:
        self.target, self.engine, self._client = target, engine, client
        # How the cases ended.
        self.outcomes: Counter[str] = Counter()

    async def run(self, cases: Sequence[Case]) -> list[str | None]:
        """The verdict of each. Requests run together; a fault inside the gateway is found by repeating them alone."""
        self.target.take_faults()
        if all(case.engine is None for case in cases):
            verdicts = list(await asyncio.gather(*map(self._verdict, cases)))
            if not self._faults():
                return verdicts
        return [await self.run_alone(case) for case in cases]

    async def run_alone(self, case: Case) -> str | None:
        self.engine.body = case.engine
        verdict = await self._verdict(case)
        self.engine.body = None
        faults = self._faults()
        return verdict or (faults[0] if faults else None)

    def _faults(self) -> list[str]:
        objections, self.engine.objections = self.engine.objections, []
        return [*self.target.take_faults(), *(f"an engine would reject the chat request: {each}" for each in objections)]

    async def _verdict(self, case: Case) -> str | None:
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                self.outcomes[await (self._by_websocket(case) if case.websocket else self._by_http(case))] += 1
        except TimeoutError:
            return "it hangs"
        except aiohttp.ClientError as broken:
            return f"no proper HTTP: {broken!r}"
        except (AssertionError, ValueError, KeyError, TypeError, IndexError) as wrong:
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            return f"{wrong!r} at {where.name}: {where.line}"
        return None

    async def _by_http(self, case: Case) -> str:
        headers = {"Content-Type": "application/json"}
        async with self._client.post(self.target.url + case.path, data=case.request, headers=headers) as got:
            body = await got.read()
        if case.path.startswith(MESSAGES):
            return check_message(got, body, case)
        if case.path == CHAT and got.content_type == "text/event-stream":
            return check_chat_stream(body)
        if got.status != 200:
            return check_error(got.status, msgspec.json.decode(body)["error"], case)
        if got.content_type == "text/event-stream":
            return check_end(check_stream(parse(body), for_sdk=_for_sdk(case)))
        made = msgspec.json.decode(body)
        if made["object"] != "response":
            return str(made["object"])
        check_response(made)
        return check_end(made)

    async def _by_websocket(self, case: Case) -> str:
        try:
            message = case.request.decode()
        except UnicodeDecodeError:
            return "not sent"
        if message.startswith("{") and '"type"' not in message[:10]:
            message = '{"type":"response.create",' + message[1:]
        async with self._client.ws_connect(self.target.url + RESPONSES) as socket:
            await socket.send_str(message)
            events: list[dict[str, Any]] = []
            while not events or events[-1]["type"] not in TERMINAL | {"error"}:
                frame = await socket.receive()
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    raise Wrong(f"the WebSocket was closed: {frame}")
                events.append(msgspec.json.decode(frame.data))
        if events[-1]["type"] == "error":
            return check_error(events[-1]["status"], events[-1]["error"], case)
        return check_end(check_stream(events, for_sdk=_for_sdk(case)))


def _for_sdk(case: Case) -> bool:
    """A response repeats settings of its request, also those that the SDK would not have sent."""
    return case.engine is not None


def check_end(response: dict[str, Any]) -> str:
    if (error := response["error"]) is not None and "This is a bug" in error["message"]:
        raise Wrong(f"a bug: {error['message']}")
    return str(response["status"])


def check_message(got: aiohttp.ClientResponse, body: bytes, case: Case) -> str:
    """What a client of Anthropic's API gets."""
    if got.content_type == "text/event-stream":
        events = messages.parse(body)
        messages.check_events(events)
        if events[-1]["type"] == "error":
            check_message_error(200, events[-1]["error"], case)
            return "failed"
        return str(messages.fold(events)["stop_reason"])
    made = msgspec.json.decode(body)
    if got.status != 200:
        if made.keys() != {"type", "error", "request_id"}:
            raise Wrong(f"not the error object: {made}")
        check_message_error(got.status, made["error"], case)
        return f"HTTP {got.status}"
    return str(made["stop_reason"]) if case.path == MESSAGES else f"{type(made['input_tokens']).__name__} tokens"


def check_chat_stream(body: bytes) -> str:
    """The stream of a chat completion; one that fails ends with an error in place of the reason why it has ended."""
    chunks = completions.chunks_of(body)
    failed = completions.check_chunks(chunks)
    if failed is None:
        return completions.finish_of(chunks)[0]
    if "bug" in failed["message"] or failed.keys() != {"message", "type", "param", "code"}:
        raise Wrong(f"an error of our own: {failed}")
    return "failed"


def check_message_error(status: int, error: dict[str, Any], case: Case) -> None:
    if "bug" in error["message"] or status == 500:
        raise Wrong(f"an error of our own, HTTP {status}: {error}")
    if case.engine is None and status >= 500 and "two attempts" not in error["message"]:
        raise Wrong(f"HTTP {status} although the engine did nothing wrong: {error}")


def check_error(status: int, error: dict[str, Any], case: Case) -> str:
    if error.keys() < {"message", "type", "param", "code"} or not isinstance(error["message"], str):
        raise Wrong(f"not the error object: {error}")
    if error["code"] == "internal_error" or status == 500:
        raise Wrong(f"an error of our own, HTTP {status}: {error}")
    if case.engine is None and status >= 500 and error["code"] not in OF_THE_ENGINE:
        raise Wrong(f"HTTP {status} although the engine did nothing wrong: {error}")
    if status >= 500 and status not in TRANSIENT:
        raise Wrong(f"HTTP {status}: {error}")
    return f"HTTP {status}"
