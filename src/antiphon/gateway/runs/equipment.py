"""What every run of a gateway uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.core.checks.work import CheckOutcome, CheckWork, StoredFileWork
from antiphon.files.file_inputs import FileInputs
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.timers import Deadlines
from antiphon.gateway.runs.watch import EngineWatches, Timeouts
from antiphon.tools.runner import ToolRunner
from antiphon.transport.write_batch import WriteBatch

TOOL_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Equipment:
    timeouts: Timeouts
    batch: WriteBatch
    checker: Checker
    tools: Mapping[str, ToolRunner]
    # Seconds that one call of a tool may take.
    tool_timeout: float = TOOL_TIMEOUT
    # The uploaded files that requests name.
    files: FileInputs | None = None
    deadlines: Deadlines = field(init=False)
    watches: EngineWatches = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deadlines", Deadlines(self.timeouts.total))
        object.__setattr__(self, "watches", EngineWatches(self.timeouts))

    async def run_check(self, work: CheckWork, owner: str, *, patient: bool = False) -> CheckOutcome:
        """Never raises for what the work does. Raises RateLimited if too much of its owner waits, unless it is patient."""
        if isinstance(work, StoredFileWork) and self.files is not None:
            return await self.files.outcome_of(work, owner, patient=patient)
        return await self.checker.run(work, owner, patient=patient)
