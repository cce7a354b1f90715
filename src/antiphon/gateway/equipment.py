"""What every run of a gateway uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.gateway.checker import Checker
from antiphon.gateway.sinks import WriteBatch
from antiphon.gateway.watch import Timeouts
from antiphon.tools.runner import ToolRunner

TOOL_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Equipment:
    timeouts: Timeouts
    batch: WriteBatch
    checker: Checker
    tools: Mapping[str, ToolRunner]
    # Seconds that one call of a tool may take.
    tool_timeout: float = TOOL_TIMEOUT
