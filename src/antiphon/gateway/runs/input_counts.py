"""How many tokens the prompt of a request has."""

from functools import partial
from typing import NamedTuple

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.prompt.conversation import TRIGGER
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.engines.affinity import affinity_key
from antiphon.engines.token_counts import count_by_template
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError, EngineError
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.runs.gateway import Gateway, ReceivedRequest
from antiphon.gateway.runs.observers import Arrival
from antiphon.gateway.runs.outbox import NoSink
from antiphon.gateway.runs.run import ResponseRun
from antiphon.gateway.state.recorder import NoRecorder


class TokenCount(NamedTuple):
    tokens: int
    # How it was counted, and what was changed or left out.
    notices: list[str]


BY_TEMPLATE = "input_tokens were counted by the engine's own template and tokenizer"
BY_ASKING = "input_tokens were counted by asking the engine for one token"
NOT_COUNTED = "the tools of MCP server {label} were not counted: they have not been listed"
BY_LENGTH = "input_tokens were estimated by length: the engine counts no tokens"


async def count_input(
    gateway: Gateway, arrival: Arrival, protocol: ClientProtocol = RESPONSES, model: str | None = None
) -> TokenCount:
    """The request is not answered. `model`: of one that names none."""
    async with gateway.admission.entered(arrival.owner) as seat:
        read = await gateway.read(arrival, protocol, model)
        try:
            counted = await _count_input(gateway, read, seat)
        except ApiError as error:
            error.reword(read.in_own_words)
            raise
        return counted._replace(notices=[*map(read.in_own_words, counted.notices)])


async def _count_input(gateway: Gateway, read: ReceivedRequest, seat: EngineSeat) -> TokenCount:
    owner = read.arrival.owner
    request, named = read.request, read.request.model
    recorder = gateway.recorder_of(request, owner)
    history = await recorder.read(request_to_items(request), locks=False)
    key = affinity_key(request, history, recorder.owner)
    chosen = await gateway.pool.choose(named, key)
    engines, request.model, notices = chosen.engines, chosen.model, chosen.notices
    # Where nothing else counts the prompt, the engine is asked for one token.
    request.max_output_tokens, request.stream, request.background, request.generate = 1, False, None, None
    # The prompt is counted as it is.
    request.context_management = None
    if request.beyond is not None and isinstance(request.input, list) and request.input[-1].get("type") == TRIGGER:
        # A client of another protocol has asked for a summary, and counts what it is made of.
        request.input = request.input[:-1]
    knowledge, environment, large = [engines[0].knowledge], gateway.environment_of(recorder.owner), read.is_large(history)
    attached, left_out = gateway.attached_to(read, recorder.owner, (named, request.model))
    make_exchange = partial(
        Exchange,
        request,
        knowledge,
        environment,
        history=history,
        may_ask_again=False,
        attached=attached,
        runs_tools=False,
    )
    exchange = await gateway.aside(make_exchange, recorder.owner, large=large)
    await gateway.check_definitions(exchange, recorder.owner, large=large)
    method, counted = BY_TEMPLATE, await count_by_template(engines[0], exchange.chat)
    if counted is None:
        counted, method = await _count_by_asking(gateway, exchange, engines[0], seat)
    unlisted = [NOT_COUNTED.format(label=server.label) for server in exchange.unlisted]
    return TokenCount(counted, [method, *read.notices, *notices, *recorder.notices, *left_out, *unlisted])


async def _count_by_asking(gateway: Gateway, exchange: Exchange, engine: Engine, seat: EngineSeat) -> tuple[int, str]:
    run = ResponseRun(exchange, [engine], NoRecorder(), gateway.equipment, seat)
    async with gateway.running(run):
        await run.connect()
        await run.run(NoSink())
    usage = run.response.usage
    if usage is None:
        raise run.error or EngineError("The engine did not count the tokens of the prompt.")
    reported = engine.knowledge.dialect_for(exchange.chat.model).reports_usage
    return usage.input_tokens, BY_ASKING if reported else BY_LENGTH
