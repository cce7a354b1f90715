"""What a tool reports of the container that it ran in, by the kind of its calls."""

from antiphon.core.hosted.code_interpreter_calls import KIND as CODE_INTERPRETER
from antiphon.core.hosted.code_results import CodeData
from antiphon.core.hosted.code_results import data_of as code_data_of
from antiphon.core.hosted.shell import KIND as HOSTED_SHELL
from antiphon.core.hosted.shell import ShellData
from antiphon.core.hosted.shell import data_of as shell_data_of
from antiphon.core.toolbox.tools import ToolResult

READERS = {CODE_INTERPRETER: code_data_of, HOSTED_SHELL: shell_data_of}


def container_data(kind: str, result: ToolResult) -> CodeData | ShellData | None:
    read = READERS.get(kind)
    return None if read is None else read(result)
