"""What a tool reports of the container that it ran in, by the kind of its calls."""

from antiphon.core.code_interpreter_calls import KIND as CODE_INTERPRETER
from antiphon.core.code_results import CodeData
from antiphon.core.code_results import data_of as code_data_of
from antiphon.core.hosted_shell import KIND as HOSTED_SHELL
from antiphon.core.hosted_shell import ShellData
from antiphon.core.hosted_shell import data_of as shell_data_of
from antiphon.core.tools import ToolResult

READERS = {CODE_INTERPRETER: code_data_of, HOSTED_SHELL: shell_data_of}


def container_data(kind: str, result: ToolResult) -> CodeData | ShellData | None:
    read = READERS.get(kind)
    return None if read is None else read(result)
