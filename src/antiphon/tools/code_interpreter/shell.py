"""Runs the calls of `shell` in containers: commands, one after another."""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.hosted_tool import files_in
from antiphon.core.hosted.shell import (
    TYPE,
    AutoEnvironment,
    HostedShell,
    ShellData,
    ShellDefinition,
    data_to_result,
    offered_environment,
)
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.built_in import shell_action
from antiphon.core.toolbox.tools import TOOLS, ToolResult
from antiphon.sandbox.containers.containers import Containers
from antiphon.sandbox.containers.kernels import ShellRun
from antiphon.tools.code_interpreter.containers import (
    check_here,
    chosen_container,
    known_files,
    named_container,
    opened_container,
    or_refusal,
)
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse

NO_COMMANDS = "The call needs `commands`: a list of shell commands."
# Characters of what one command prints, unless the call says how many; and the most that it may ask for.
USUAL_OUTPUT, MOST_OUTPUT = 20_000, 100_000
MOST_COMMANDS = 20
NOT_RUN = f"This command was not run: one call may have {MOST_COMMANDS} commands. Send the rest in another call."


class ShellChooser(ShellDefinition, ToolRunner):
    """The type `shell` in requests: which container it runs in. Its calls are of another kind."""

    def __init__(self, containers: Containers) -> None:
        super().__init__(most_memory=containers.limits.memory)
        self._containers = containers

    async def container_for(
        self, request: CreateResponse, history: Sequence[Item], owner: str, other: str | None
    ) -> str | None:
        offered = offered_environment(request.tools or ())
        if offered is None:
            return None
        at, environment = offered
        where = f"{TOOLS}[{at}]"
        await check_here(self._containers, where)
        if isinstance(environment, AutoEnvironment):
            await self._containers.check_uploads(owner, environment.file_ids or (), f"{where}.environment.file_ids")
            return chosen_container(self._containers, request, history, owner, other)
        return named_container(self._containers, environment.container_id, owner, f"{where}.environment.container_id")

    def files_of(self, container: str, owner: str) -> list[CodeFile]:
        return known_files(self._containers, container, owner)


class HostedShellRunner(HostedShell, ToolRunner):
    has_own_timeouts = True

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        return await or_refusal(self._run(call, context))

    async def _run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        action = shell_action(msgspec.json.decode(call.arguments))
        commands = [command for command in action["commands"] if command.strip()]
        if not commands:
            return ToolResult(NO_COMMANDS, failed=True)
        offered = offered_environment(context.request.tools or ())
        auto = offered[1] if offered is not None and isinstance(offered[1], AutoEnvironment) else AutoEnvironment()
        container = await opened_container(self._containers, context.containers[TYPE], context.owner, auto.memory_limit)
        ids = list(dict.fromkeys([*(auto.file_ids or ()), *files_in(request_to_items(context.request))]))
        await self._containers.bring(container, context.owner, ids)
        most = min(action["max_output_length"] or USUAL_OUTPUT, MOST_OUTPUT)
        seconds = self._seconds(action["timeout_ms"])
        ran = await self._containers.run_commands(container, commands[:MOST_COMMANDS], seconds, max(1, most))
        ran += [ShellRun("", NOT_RUN, 1)] * len(commands[MOST_COMMANDS:])
        files = [CodeFile(file.id, file.name) for file in container.files.values()]
        return data_to_result(ShellData(container.id, [_to_output(each) for each in ran], files))

    def _seconds(self, timeout_ms: int | None) -> float:
        most = self._containers.limits.seconds
        return min(timeout_ms / 1000, most) if timeout_ms is not None and timeout_ms > 0 else most


def _to_output(ran: ShellRun) -> dict[str, Any]:
    outcome = {"type": "timeout"} if ran.exit_code is None else {"type": "exit", "exit_code": ran.exit_code}
    return {"stdout": ran.stdout, "stderr": ran.stderr, "outcome": outcome}
