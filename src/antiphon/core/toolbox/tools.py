"""What a tool is: its identity, the name by which an engine calls it, a call of it, and the result of a call."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from antiphon.patterns import late_pattern
from antiphon.wire.chat import ChatFunction
from antiphon.wire.hosted_items import McpApprovalRequest, type_of

# A tool as it was defined in a request.
# The field of a request that lists its tools; and where the tools are that the operator adds to it.
TOOLS = "tools"
ATTACHED = "attached"
# What engines accept. A client may send longer names.
LONGEST_NAME = 64
ILLEGAL_IN_NAMES = late_pattern(r"[^A-Za-z0-9_-]")
# The form of calls that the client has to approve first.
APPROVAL = type_of(McpApprovalRequest)


class ToolIdentity(Struct, frozen=True, gc=False):
    """What distinguishes a tool from all others, as the client knows it. Its kind decides what its calls look like."""

    kind: str
    name: str
    namespace: str | None = None


# The searches of the client and of the gateway.
CLIENT_SEARCH = ToolIdentity("tool_search", "tool_search")
SERVER_SEARCH = ToolIdentity("server_tool_search", "tool_search")
# The shells of the client and of the gateway.
CLIENT_SHELL = ToolIdentity("shell", "shell")
HOSTED_SHELL = ToolIdentity("hosted_shell", "shell")
# The tools of the client that the gateway may run in its place.
RUN_HERE = {CLIENT_SEARCH: SERVER_SEARCH, CLIENT_SHELL: HOSTED_SHELL}


def engine_name(identity: ToolIdentity) -> str:
    """The name that the engine sees: legal, at most 64 characters, and the same in every turn."""
    own = not identity.namespace or is_namespace_of_its_own(identity)
    plain = identity.name if own else f"{identity.namespace}__{identity.name}"
    legal = ILLEGAL_IN_NAMES.sub("_", plain)
    return legal if legal == plain and len(legal) <= LONGEST_NAME else with_digest(legal, identity)


def is_namespace_of_its_own(identity: ToolIdentity) -> bool:
    """The API puts a deferred function that is in no namespace into one of its own name."""
    return identity.kind == "function" and identity.namespace == identity.name


def with_digest(name: str, identity: ToolIdentity) -> str:
    """The name with a suffix that only this tool has."""
    whole = f"{identity.kind}\0{identity.namespace or ''}\0{identity.name}".encode()
    digest = hashlib.blake2b(whole, digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - len(digest) - 1]}_{digest}"


# ---- what a call does, as far as the name and the description of its tool say ------------------------------------------

# The verbs with which the names and descriptions of tools begin that only look at something, and nouns with which names end.
READS = frozenset(
    "browse calculate check compare compute convert count describe fetch find get glob grep has inspect is list look lookup "
    "measure preview query read recall retrieve search show summarize track translate validate verify view".split()
)
DESCRIBED_READS = frozenset(("ask", "give", "look", "provide", "return", "tell", *READS))
WHAT_IS_READ = frozenset("details fetch history hours info lookup query search status".split())
# Verbs with which the names of tools begin that do something, whatever the rest of the name is about.
ACTS = frozenset(
    "add ask cancel create delete enroll give insert join pay provide put remove return send set share submit subscribe tell "
    "update upload".split()
)
# Programs are run again after a change: words for what runs them, and for what is run.
RUNNERS = frozenset("bash compile console interpreter lint powershell pytest python repl shell sql terminal".split())
RUNS = frozenset("exec execute evaluate run start".split())
PROGRAMS = frozenset("build code command program script test tests".split())
# A file is as it is, however often that is written; but not what is done with it elsewhere.
FILES = frozenset("directory file files folder".split())
WRITES = frozenset("edit write".split())
ELSEWHERE = frozenset("attach mail post print send share submit upload".split())
# The same call may have another result a moment later, or acts on what the one before it has moved.
POLLS = frozenset("monitor next poll progress random roll status stdin wait watch".split())
GESTURES = frozenset("click drag hover navigate press redo screenshot scroll snapshot swipe tap undo".split())
_WORDS = late_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def may_poll(name: str) -> bool:
    """A call of it may be made again at once."""
    words = _words(name)
    return bool(words) and words[0] not in ACTS and not (POLLS | GESTURES).isdisjoint(words)


def may_change(function: ChatFunction) -> bool:
    """A call of it may have changed something, as far as its name and its description say: to make the call again may be to do
    it twice."""
    words = _words(function.name)
    if not words or words[:2] in (["check", "in"], ["check", "out"]):
        return True
    if _runs(words) or _writes_files(words):
        return False
    described = _WORDS.match((function.description or "").lstrip()[:40])
    begins = described[0].lower() if described is not None else ""
    reads = (
        words[0] in READS
        or words[-1] in WHAT_IS_READ
        or begins in DESCRIBED_READS
        or begins.removesuffix("s") in DESCRIBED_READS
    )
    return words[0] in ACTS or not reads


def _runs(words: Sequence[str]) -> bool:
    return not RUNNERS.isdisjoint(words) or not (RUNS.isdisjoint(words) or PROGRAMS.isdisjoint(words))


def _writes_files(words: Sequence[str]) -> bool:
    return words[0] not in ELSEWHERE and (words[-1] in WRITES or not FILES.isdisjoint(words))


def _words(name: str) -> list[str]:
    """Those of a name, without the server or the namespace in front of it."""
    return [word.lower() for word in _WORDS.findall(name.rpartition("__")[2])]


class AsCalled(Struct, frozen=True):
    """A call of a tool as the model makes it."""

    name: str
    arguments: str
    # The tool is offered as easy functions: the results of its calls are shown in plain words, which may name these functions.
    easy: Collection[str] = ()


def plain_call(identity: ToolIdentity, arguments: str) -> AsCalled:
    """A call of a tool that is not offered."""
    return AsCalled(engine_name(identity), arguments)


class ToolResult(Struct, frozen=True):
    """What came of a call that the gateway ran. `output` is for the model; `data` is for the form that makes the item."""

    output: str
    failed: bool = False
    data: Any = None
    # What the client should know of it.
    notice: str = ""
