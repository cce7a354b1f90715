"""One case against the gateway, and the verdict: None, or what is wrong."""

import asyncio
import traceback
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec
from support.engine import Answer, Body, MockEngine, answer, call, text
from support.streams import TERMINAL, check_response, check_stream, parse

from fuzz.cases import Case
from fuzz.target import Target

# In seconds. A gateway that takes longer hangs.
ANSWERED_WITHIN = 30.0
# Errors about the engine: its model did not do what the request requires, which no gateway can change.
OF_THE_ENGINE = {"answer_invalid"}
TRANSIENT = {502, 503, 504}


class Wrong(AssertionError):
    """The gateway did what it must not do."""


class FuzzEngine(MockEngine):
    """As strict as the mock engine. `body`: what it answers, if it has to be broken."""

    def __init__(self) -> None:
        super().__init__()
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
        """What a model would answer: a call if it has to make one, else words or JSON."""
        # Nothing is kept of a hundred thousand requests.
        self.requests.clear()
        self.headers.clear()
        if self.body is not None:
            return self.body
        tools, choice = body.get("tools"), body.get("tool_choice")
        if tools and choice not in (None, "auto", "none"):
            return answer(call(tools[0]["function"]["name"], "{}"), finish="tool_calls")
        return text("{}") if "response_format" in body else text("Hello", " world")


class Trial:
    """Cases against one gateway. Those with a broken engine run one at a time: its answer is the same for all requests."""

    def __init__(self, target: Target, engine: FuzzEngine, client: aiohttp.ClientSession) -> None:
        self.target, self.engine, self._client = target, engine, client

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
                await (self._by_websocket(case) if case.websocket else self._by_http(case))
        except TimeoutError:
            return "it hangs"
        except aiohttp.ClientError as broken:
            return f"no proper HTTP: {broken!r}"
        except (AssertionError, ValueError, KeyError, TypeError, IndexError) as wrong:
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            return f"{wrong!r} at {where.name}: {where.line}"
        return None

    async def _by_http(self, case: Case) -> None:
        headers = {"Content-Type": "application/json"}
        async with self._client.post(self.target.url + "/v1/responses", data=case.request, headers=headers) as got:
            body = await got.read()
        if got.status != 200:
            check_error(got.status, msgspec.json.decode(body)["error"], case)
        elif got.content_type == "text/event-stream":
            check_end(check_stream(parse(body), for_sdk=_for_sdk(case)))
        else:
            made = msgspec.json.decode(body)
            check_response(made)
            check_end(made)

    async def _by_websocket(self, case: Case) -> None:
        try:
            message = case.request.decode()
        except UnicodeDecodeError:
            return
        if message.startswith("{") and '"type"' not in message[:10]:
            message = '{"type":"response.create",' + message[1:]
        async with self._client.ws_connect(self.target.url + "/v1/responses") as socket:
            await socket.send_str(message)
            events: list[dict[str, Any]] = []
            while not events or events[-1]["type"] not in TERMINAL | {"error"}:
                frame = await socket.receive()
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    raise Wrong(f"the WebSocket was closed: {frame}")
                events.append(msgspec.json.decode(frame.data))
        if events[-1]["type"] == "error":
            check_error(events[-1]["status"], events[-1]["error"], case)
        else:
            check_end(check_stream(events, for_sdk=_for_sdk(case)))


def _for_sdk(case: Case) -> bool:
    """A response repeats settings of its request, also those that the SDK would not have sent."""
    return case.engine is not None


def check_end(response: dict[str, Any]) -> None:
    if (error := response["error"]) is not None and "This is a bug" in error["message"]:
        raise Wrong(f"a bug: {error['message']}")


def check_error(status: int, error: dict[str, Any], case: Case) -> None:
    if error.keys() < {"message", "type", "param", "code"} or not isinstance(error["message"], str):
        raise Wrong(f"not the error object: {error}")
    if error["code"] == "internal_error" or status == 500:
        raise Wrong(f"an error of our own, HTTP {status}: {error}")
    if case.engine is None and status >= 500 and error["code"] not in OF_THE_ENGINE:
        raise Wrong(f"HTTP {status} although the engine did nothing wrong: {error}")
    if status >= 500 and status not in TRANSIENT:
        raise Wrong(f"HTTP {status}: {error}")
