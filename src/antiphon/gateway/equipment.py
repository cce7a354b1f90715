"""What every run of a gateway uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.gateway.checker import Checker
from antiphon.gateway.sinks import WriteBatch
from antiphon.gateway.watch import Timeouts
from antiphon.tools.runner import ToolRunner


@dataclass(frozen=True, slots=True)
class Equipment:
    timeouts: Timeouts
    batch: WriteBatch
    checker: Checker
    tools: Mapping[str, ToolRunner]
