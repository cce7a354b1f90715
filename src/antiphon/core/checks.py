"""Which checks an answer has to pass, and what else it owes: by its tools, the choice among them, and its format."""

from collections.abc import Mapping

from antiphon.core.demands import Check, Demands, Tools
from antiphon.core.dialect import Dialect
from antiphon.core.grammars import GrammarCheck
from antiphon.core.schemas import Schema, SchemaCheck, is_kept
from antiphon.core.tool_choice import Offer
from antiphon.core.tools import Toolbox
from antiphon.errors import InvalidRequest
from antiphon.wire.responses import CreateResponse, TextFormat

ANY_OBJECT: Schema = {"type": "object"}


def offer_to_demands(
    request: CreateResponse, offer: Offer, box: Toolbox, dialect: Dialect, *, compacts: bool, check_grammars: bool
) -> Demands:
    checks = _call_checks(offer, box, dialect)
    if check_grammars:
        checks |= {box.names[native]: GrammarCheck(grammar) for native, grammar in box.grammars.items()}
    only = frozenset(offer.only) if offer.only else None
    return Demands(
        tools=Tools(box.native_of, lambda name: _check_of(name, box, checks)),
        # An answer that must be a call is none in words.
        answer=None if compacts or offer.must_call else _answer_check(request, offer, dialect),
        must_call=offer.must_call,
        only=only,
        most_calls=0 if compacts or offer.only == () else most_calls(request),
    )


def most_calls(request: CreateResponse) -> int | None:
    """Calls that are not to be made in parallel are one at a time, and so one in a response."""
    return 1 if request.parallel_tool_calls is False else request.max_tool_calls


def _check_of(name: str, box: Toolbox, checks: Mapping[str, Check]) -> Check | None:
    return checks.get(name) or checks.get(box.name_of(box.native_of(name)))


def _call_checks(offer: Offer, box: Toolbox, dialect: Dialect) -> dict[str, Check]:
    """A strict function's arguments always follow its schema, and so do those of a call that had to be made."""
    checks: dict[str, Check] = {}
    for name, tool in box.functions.items():
        function = tool.function
        demanded = offer.must_call and offer.only is not None and name in offer.only
        if box.natives[name].kind == "custom" or not (function.strict or demanded):
            continue
        promised = offer.enveloped if demanded else dialect.constrains_calls
        schema = function.parameters or ANY_OBJECT
        try:
            checks[name] = SchemaCheck(schema, f"{box.places[name]}.parameters", held=not (promised and is_kept(schema)))
        except InvalidRequest as unreadable:
            if function.strict:
                raise
            box.notices.append(f"the calls of {name} are not checked: {unreadable.message}")
    return checks


def takes_format(offer: Offer, dialect: Dialect) -> bool:
    """The engine takes a `response_format` beside these tools."""
    with_tools = bool(offer.tools) and not offer.in_words
    return dialect.takes_response_format and (dialect.constrains_json_with_tools or not with_tools)


def _answer_check(request: CreateResponse, offer: Offer, dialect: Dialect) -> Check | None:
    format = request.text.format if request.text else None
    schema = format_to_schema(format)
    if schema is None:
        return None
    promised = dialect.constrains_json and takes_format(offer, dialect)
    return SchemaCheck(schema, "text.format.schema", held=not (promised and is_kept(schema)))


def format_to_schema(format: TextFormat | None) -> Schema | None:
    if format is None or format.type == "text":
        return None
    return ANY_OBJECT if format.type == "json_object" else format.schema
