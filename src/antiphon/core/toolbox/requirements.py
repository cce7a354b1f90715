"""What a request requires of an answer: which tools it may call and which it must, and the checks that its texts must pass."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from antiphon.core.checks.schema_support import ANY_OBJECT, Schema, is_enforced
from antiphon.core.checks.work import CheckWork, Flaw, Grammar, GrammarWork, SchemaWork
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.protocols.responses.references import is_stored
from antiphon.core.toolbox.built_in import CALLS
from antiphon.core.toolbox.choice import Offer
from antiphon.core.toolbox.toolbox import NO_TOOLS, Toolbox
from antiphon.partial_json import canonical_arguments, is_json_object, missing_end, object_arguments
from antiphon.wire.responses import CreateResponse, TextFormat


class Check(Protocol):
    """A check of one text: the arguments of a call, or an answer. The check itself is slow work, done elsewhere."""

    @property
    def buffered(self) -> bool:
        """Nothing is emitted before the text is whole and was checked, so that it can be repaired or asked for again.
        Otherwise it is emitted as it comes, and checked at its end."""

    @property
    def binding(self) -> bool:
        """A text that fails is an error. Otherwise it is emitted all the same."""

    def work(self, text: str) -> CheckWork: ...


NO_NAMES: frozenset[str] = frozenset()


class CheckedTools(Struct, frozen=True):
    """The tools of an answer, and the checks of their calls."""

    box: Toolbox
    # By the names of functions.
    checks: Mapping[str, Check] = {}
    # Only the arguments of a call by one of these names show whether it may be made: it is not shown before they are whole.
    judged_whole: frozenset[str] = NO_NAMES

    def check_of(self, name: str) -> Check | None:
        """The check of a call by this name, or by another name of the same tool."""
        checks, box = self.checks, self.box
        return (checks.get(name) or checks.get(box.name_of(box.identity_of(name)))) if checks else None


# Most requests have no tools, and share this.
WITHOUT_TOOLS = CheckedTools(NO_TOOLS)


class Requirements(Struct, frozen=True):
    """What one answer may call and must call, and what its texts must satisfy."""

    tools: CheckedTools = WITHOUT_TOOLS
    # The check of an answer in words, where it has to be JSON.
    answer: Check | None = None
    # One of the tools must be called; only these may be.
    must_call: bool = False
    only: frozenset[str] | None = None
    # The own names of tools that are offered as some of these: a call by its tool's own name is understood.
    replaced_names: frozenset[str] = NO_NAMES
    # Those that may not be called now because the model is in a loop, and why.
    withheld: Mapping[str, str] = {}
    # Those calls that have succeeded and are not made again now, by their names and arguments.
    made: frozenset[Hashable] = frozenset()
    # A call is made once in an answer.
    once: bool = False
    # Calls are dropped, with a notice: all of them, or all but one of an answer unless calls may be parallel.
    may_call: bool = True
    parallel: bool = True
    # The gateway runs some of the tools. A call that it cannot run is answered, and the model goes on.
    hosted: bool = False
    # How many calls it runs in the whole response; None: any number.
    most_runs: int | None = None
    # The functions that the model may call.
    offered: tuple[str, ...] = ()

    def reason_against(self, name: str, arguments: str) -> str | None:
        """Why this call may not be made now. Another name for a call that is withheld does not make it another call."""
        return self.withheld.get(name) or self.withheld.get(self.tools.box.name_in_history(name, arguments))

    def is_made(self, name: str, arguments: str) -> bool:
        """It has succeeded, and is not made again now. Of a call that is in a loop, that is the reason against it."""
        if not self.made or self.reason_against(name, arguments) is not None:
            return False
        return self.key_of(name, arguments) in self.made

    def key_of(self, name: str, arguments: str) -> Hashable:
        """The call as the history will show it."""
        box = self.tools.box
        translated = box.tool_arguments(name, arguments)
        called = box.as_called(box.identity_of(name), arguments if translated is None else translated)
        return called.name, canonical_arguments(object_arguments(called.arguments))

    def offered_as(self, name: str, arguments: str) -> list[str]:
        """The functions by which a call that was made by this name may be made now; none if it may not be made."""
        if not self.allows(name) or self.reason_against(name, arguments) is not None:
            return []
        return [
            each
            for each in self.tools.box.offered_as(name)
            if each not in self.withheld and (not self.only or each in self.only)
        ]

    def knows(self, name: str) -> bool:
        """There is such a tool. Where the gateway runs none, a call of an unknown one is the client's to judge."""
        return not self.hosted or self.tools.box.knows(name)

    def allows(self, name: str) -> bool:
        return self.only is None or name in self.only or name in self.replaced_names


NO_REQUIREMENTS = Requirements()


# ---- checks ----------------------------------------------------------------------------------------------------------


class SchemaCheck(Struct, frozen=True):
    """A text that must be JSON that follows a schema."""

    definition: bytes
    buffered: bool
    binding: bool = True

    def work(self, text: str) -> SchemaWork:
        return SchemaWork(self.definition, text, repair=self.buffered)


class HostedCheck(Struct, frozen=True):
    """The arguments of a call that the gateway runs. Types are repaired, and brackets that are missing at the end. Nothing is
    made of anything else that is not JSON: it may be half of a command."""

    definition: bytes
    buffered: bool = True
    binding: bool = False

    def work(self, text: str) -> SchemaWork:
        whole = text + missing_end(text)
        return SchemaWork(self.definition, whole, repair=is_json_object(whole))


class GrammarCheck(Struct, frozen=True):
    """A custom call whose input must follow a grammar. One that does not is emitted: its tool will report the error."""

    definition: Grammar
    buffered: bool = True
    binding: bool = False

    def work(self, text: str) -> GrammarWork:
        return GrammarWork(self.definition, text)


class Definition(Struct, frozen=True):
    """A schema or grammar of a client, and its place in the request."""

    definition: bytes | Grammar
    where: str
    # A definition that cannot be compiled is an error. Otherwise its calls are not checked, with this notice, unless it is
    # malformed.
    required: bool
    notice: str = ""


class Checks(Struct, eq=False):
    """The checks of one answer, and the definitions that they are made of."""

    _flaw_of: Callable[[bytes | Grammar], Flaw | None]
    definitions: list[Definition] = []
    calls: dict[str, Check] = {}
    answer: Check | None = None

    def readable(self, definition: Definition) -> bool:
        """Notes the definition; false if it is known not to compile."""
        self.definitions.append(definition)
        return self._flaw_of(definition.definition) is None


class HostedCalls(Protocol):
    """The form of calls of a tool that the gateway runs, as far as their arguments are concerned: what they must follow, unless
    the function says it, and whether they are checked at all."""

    accepts: Mapping[str, Any] | None
    is_checked: bool


NOTHING_HOSTED: Mapping[str, HostedCalls] = {}


def offer_to_requirements(
    request: CreateResponse,
    offer: Offer,
    box: Toolbox,
    dialect: Dialect,
    checks: Checks,
    *,
    compacts: bool,
    check_grammars: bool,
    hosted_kinds: Mapping[str, HostedCalls] = NOTHING_HOSTED,
) -> Requirements:
    """`hosted_kinds`: the kinds of tool that the gateway runs."""
    hosted: Sequence[str] = ()
    tools = WITHOUT_TOOLS
    if box is not NO_TOOLS:
        hosted = [name for name, identity in box.offered.identities.items() if identity.kind in hosted_kinds]
        _check_calls(offer, box, dialect, checks)
        _check_hosted(hosted, hosted_kinds, offer, box, dialect, checks)
        _check_inputs(box, checks, check_grammars=check_grammars)
        # A call by the own name of a tool is one of its functions by another name: perhaps of one that may not be called.
        judged_whole = frozenset(box.replaced_names(offer.withheld)) if offer.withheld else NO_NAMES
        if offer.made or offer.most_calls > 1:
            # And only they show whether it was made before.
            judged_whole |= {*offer.names, *box.replaced_names(offer.names)}
        tools = CheckedTools(box, checks.calls, judged_whole)
    # An answer that must be a call has no format.
    if request.text is not None and not compacts and not offer.must_call:
        _check_answer(request, offer, dialect, checks)
    return Requirements(
        tools=tools,
        answer=checks.answer,
        must_call=offer.must_call,
        only=frozenset(offer.only) if offer.only else None,
        replaced_names=frozenset(box.replaced_names(offer.only)) if offer.only else NO_NAMES,
        withheld=offer.withheld,
        made=offer.made,
        once=offer.most_calls > 1,
        may_call=not compacts and (offer.only != () or bool(offer.withheld)),
        parallel=request.parallel_tool_calls is not False,
        hosted=bool(hosted),
        most_runs=request.max_tool_calls,
        offered=offer.names if hosted else (),
    )


def _check_calls(offer: Offer, box: Toolbox, dialect: Dialect, checks: Checks) -> None:
    """The arguments of a strict function always follow its schema. Others are emitted as they come, whatever they are, except
    for those of built-in tools and easy functions, which are never emitted before they are whole."""
    for name, identity in box.offered.identities.items():
        schema = box.easy.functions[name].accepts if name in box.easy.functions else CALLS.get(identity.kind)
        if schema is not None:
            # One that does not fit is asked for once more. What is wrong then, its tool will report.
            checks.calls[name] = SchemaCheck(msgspec.json.encode(schema), buffered=True, binding=False)
    _check_deferred(box, checks)
    for name, tool in box.offered.functions.items():
        if not tool.function.strict:
            continue
        required = offer.must_call and offer.only is not None and name in offer.only
        schema = tool.function.parameters or ANY_OBJECT
        notice = f"the schema of tool {name} cannot be read: its calls are not checked"
        place = box.offered.places[name]
        definition = Definition(msgspec.json.encode(schema), f"{place}.parameters", not is_stored(place), notice)
        if checks.readable(definition):
            constrained = dialect.constrains_calls or (required and offer.constrained)
            checks.calls[name] = _schema_check(definition, schema, constrained=constrained)


def _check_deferred(box: Toolbox, checks: Checks) -> None:
    """What is wrong with the schema of a tool is reported before the tool is found."""
    for identity, tool in box.deferred.tools.items():
        if tool.function.strict and identity not in box.offered.names:
            schema = msgspec.json.encode(tool.function.parameters or ANY_OBJECT)
            checks.readable(Definition(schema, f"{tool.where}.parameters", True))


def _check_hosted(
    names: Collection[str],
    kinds: Mapping[str, HostedCalls],
    offer: Offer,
    box: Toolbox,
    dialect: Dialect,
    checks: Checks,
) -> None:
    """The arguments of a tool that the gateway runs follow its schema, by the engine or by a check. The client is not asked
    whether the schema can be read: a call that cannot be checked is run."""
    constrained = offer.constrained or (dialect.constrains_calls and not offer.in_words)
    for name in names:
        schema = box.offered.functions[name].function.parameters or ANY_OBJECT if name in box.offered.functions else ANY_OBJECT
        checks.calls.pop(name, None)
        kind = box.offered.identities[name].kind
        if kinds[kind].is_checked and not (constrained and is_enforced(schema)):
            # A model may write them in other ways than the function says.
            accepted = kinds[kind].accepts or CALLS.get(kind, schema)
            checks.calls[name] = HostedCheck(msgspec.json.encode(accepted))


def _check_inputs(box: Toolbox, checks: Checks, *, check_grammars: bool) -> None:
    if not check_grammars:
        return
    for identity, grammar in box.offered.grammars.items():
        if identity not in box.offered.names:
            continue
        notice = f"the grammar of tool {identity.name} cannot be read: its calls are not checked"
        if checks.readable(Definition(grammar, f"{box.offered.places[box.offered.names[identity]]}.format", False, notice)):
            checks.calls[box.offered.names[identity]] = GrammarCheck(grammar)


def _check_answer(request: CreateResponse, offer: Offer, dialect: Dialect, checks: Checks) -> None:
    format = request.text.format if request.text else None
    schema = format_to_schema(format)
    if schema is None:
        return
    definition = Definition(msgspec.json.encode(schema), "text.format.schema", True)
    if checks.readable(definition):
        constrained = dialect.constrains_json and takes_format(offer, dialect)
        checks.answer = _schema_check(definition, schema, constrained=constrained)


def _schema_check(definition: Definition, schema: Schema, *, constrained: bool) -> Check:
    """`constrained`: the engine constrains the text to the schema, as far as engines can."""
    assert isinstance(definition.definition, bytes)
    return SchemaCheck(definition.definition, buffered=not (constrained and is_enforced(schema)))


def takes_format(offer: Offer, dialect: Dialect) -> bool:
    """The answer may be constrained beside these tools: the engine takes both, and the model can still call one."""
    if not offer.tools:
        return dialect.takes_response_format
    with_tools = dialect.constrains_json_with_tools or offer.in_words
    return dialect.takes_response_format and with_tools and dialect.calls_when_constrained


def format_to_schema(format: TextFormat | None) -> Schema | None:
    if format is None or format.type == "text":
        return None
    return ANY_OBJECT if format.type == "json_object" else format.schema


def wants_json(request: CreateResponse) -> bool:
    """The answer in words has a format."""
    return request.text is not None and format_to_schema(request.text.format) is not None
