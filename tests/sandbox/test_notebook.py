"""Code as a model writes it: what it finds inside, and what comes back."""

import struct
from pathlib import Path

import msgspec
import pytest
from support.bubblewrap import SMALL, kernel_in, result_of

from antiphon.sandbox import folder as folders
from antiphon.sandbox.kernel import Kernel
from antiphon.sandbox.runs import MIB, SandboxLimits
from antiphon.sandbox.sandbox import Sandbox

PNG = b"\x89PNG\r\n\x1a\n"


async def test_variables_functions_and_imports_live_on(kernel: Kernel) -> None:
    await kernel.run("import math\nx = 20\ndef double(n): return 2 * n", 10)
    assert await result_of(kernel, "double(x) + math.floor(2.5)") == "42"
    assert await result_of(kernel, "_ + 1") == "43"


@pytest.mark.parametrize(
    ("code", "logs"),
    [
        ("1 + 1", "2"),
        ("'text'", "'text'"),
        ("x = 1", ""),
        ("None", ""),
        ("print('a'); 'b'", "a\n'b'"),
        ("1 + 1;", ""),
        ("for n in range(2): print(n)", "0\n1"),
        ("# only a comment", ""),
        ("", ""),
        ("if True:\n    5", ""),
    ],
)
async def test_the_value_of_a_last_expression_is_shown(kernel: Kernel, code: str, logs: str) -> None:
    run = await kernel.run(code, 10)
    assert (run.logs.strip(), run.failed) == (logs, False)


async def test_an_error_is_shown_with_its_lines_and_none_of_ours(kernel: Kernel) -> None:
    run = await kernel.run("def divide(n):\n    return 1 / n\n\nprint('before')\ndivide(0)", 10)
    assert run.failed
    assert run.logs.startswith("before\nTraceback (most recent call last):\n")
    assert '  File "<cell 1>", line 2, in divide\n    return 1 / n' in run.logs
    assert run.logs.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "_notebook" not in run.logs


async def test_an_error_within_an_error_is_shown_without_our_lines(kernel: Kernel) -> None:
    run = await kernel.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['key']", 10)
    assert "During handling of the above exception" in run.logs
    assert "_notebook" not in run.logs


async def test_an_error_in_the_grammar_is_shown(kernel: Kernel) -> None:
    run = await kernel.run("x = = 1", 10)
    assert run.failed
    assert "SyntaxError: invalid syntax" in run.logs
    assert "_notebook" not in run.logs


async def test_output_of_children_is_in_its_place(kernel: Kernel) -> None:
    code = """
import os, subprocess, sys
print('one')
done = subprocess.run(['echo', 'two'])
done = os.system('echo three >&2')
print('four', file=sys.stderr)
"""
    assert await result_of(kernel, code) == "one\ntwo\nthree\nfour"


async def test_output_that_is_not_utf_8_is_shown_as_far_as_it_is(kernel: Kernel) -> None:
    assert await result_of(kernel, "import os; os.write(1, b'a\\xffb'); None") == "a\ufffdb"


async def test_output_that_was_closed_is_there_again_in_the_next_run(kernel: Kernel) -> None:
    await kernel.run("import os, sys\nos.close(1)\nsys.stdout = None", 10)
    assert await result_of(kernel, "print('again')") == "again"


async def test_nobody_can_answer_a_question(kernel: Kernel) -> None:
    run = await kernel.run("input('name? ')", 10)
    assert "input() is not available: nobody can answer" in run.logs


async def test_exit_does_not_end_the_interpreter(kernel: Kernel) -> None:
    run = await kernel.run("x = 1\nimport sys\nsys.exit()", 10)
    assert (run.logs, run.failed) == ("", False)
    assert await result_of(kernel, "sys.exit('with a message')") == "SystemExit: with a message"
    assert await result_of(kernel, "x") == "1"


async def test_commands_and_magics_of_notebooks_are_understood(kernel: Kernel) -> None:
    assert await result_of(kernel, "%matplotlib inline\nx = 3\n!echo from the shell\nprint(x)") == "from the shell\n3"
    assert await result_of(kernel, "%%bash\necho one\necho two") == "one\ntwo"
    for line in ("%pip install requests", "!pip install requests"):
        assert await result_of(kernel, line) == (
            "Packages cannot be installed here: there is no network. Available: numpy, pandas, matplotlib."
        )
    assert "%timeit is not available here" in await result_of(kernel, "%timeit 1 + 1")
    assert await result_of(kernel, "text = '''\n!not a command\n'''\ntext") == repr("\n!not a command\n")


async def test_a_name_that_is_awaited_needs_no_function(kernel: Kernel) -> None:
    assert await result_of(kernel, "import asyncio\nasync def answer(): return 42\nawait answer()") == "42"
    assert await result_of(kernel, "asyncio.run(answer())") == "42"


async def test_threads_and_processes_work(sandbox: Sandbox, folder: Path) -> None:
    async with kernel_in(sandbox, folder, msgspec.structs.replace(SMALL, memory=512 * MIB)) as kernel:
        code = """
import multiprocessing, threading
def square(n): return n * n
with multiprocessing.Pool(2) as pool:
    print(pool.map(square, range(4)))
thread = threading.Thread(target=print, args=('from a thread',)); thread.start(); thread.join()
"""
        assert await result_of(kernel, code) == "[0, 1, 4, 9]\nfrom a thread"


async def test_files_come_and_go_through_the_folder(kernel: Kernel, folder: Path) -> None:
    folders.write_file(folder, "in.csv", [b"a,b\n", b"1,2\n"])
    code = """
import csv, os
rows = list(csv.reader(open('/mnt/data/in.csv')))
os.mkdir('out')
size = open('out/sum.txt', 'w').write('3')
rows
"""
    assert await result_of(kernel, code) == "[['a', 'b'], ['1', '2']]"
    assert [file.path for file in folders.list_files(folder)] == ["in.csv", "out/sum.txt"]
    with folders.open_file(folder, "out/sum.txt") as file:
        assert file.read() == b"3"


async def test_a_command_of_the_shell_has_two_outputs_and_a_code(kernel: Kernel) -> None:
    run = await kernel.shell("pwd; echo oops >&2; echo made > file.txt; exit 3", 10, 1000)
    assert (run.stdout, run.stderr, run.exit_code) == ("/mnt/data\n", "oops\n", 3)
    assert await result_of(kernel, "open('file.txt').read()") == "'made\\n'"


async def test_a_command_that_takes_too_long_is_ended(kernel: Kernel) -> None:
    run = await kernel.shell("echo begun; sleep 60", 0.5, 1000)
    assert (run.stdout, run.exit_code) == ("begun\n", None)
    assert kernel.is_alive


async def test_a_command_that_leaves_something_running_does_not_wait_for_it(kernel: Kernel) -> None:
    run = await kernel.shell("sleep 60 & echo done", 10, 1000)
    assert (run.stdout, run.exit_code) == ("done\n", 0)


async def test_a_long_output_of_a_command_is_cut(kernel: Kernel) -> None:
    run = await kernel.shell("head -c 5000000 /dev/zero | tr '\\0' x", 20, 1000)
    assert run.stdout == "x" * 1000 + "\n[4999000 more bytes are left out.]"
    assert run.exit_code == 0


# ---- packages ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def roomy() -> SandboxLimits:
    return msgspec.structs.replace(SMALL, memory=512 * MIB, processes=48)


async def test_tables_are_shown_as_text(sandbox: Sandbox, folder: Path, roomy: SandboxLimits) -> None:
    async with kernel_in(sandbox, folder, roomy) as kernel:
        code = "import pandas as pd\npd.DataFrame({'city': ['Bonn', 'Rome'], 'size': [3, 4]})"
        assert await result_of(kernel, code) == "city  size\n0  Bonn     3\n1  Rome     4"
        assert await result_of(kernel, "import numpy as np\nnp.arange(3) @ np.arange(3)") == "np.int64(5)"


async def test_figures_come_back_as_images(sandbox: Sandbox, folder: Path, roomy: SandboxLimits) -> None:
    async with kernel_in(sandbox, folder, roomy) as kernel:
        code = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]); plt.title('Größe'); plt.show()
plt.bar(['a', 'b'], [1, 2])
plt.savefig('/mnt/data/bars.png')
None
"""
        run = await kernel.run(code, 60)
        assert run.logs == ""
        assert [image[:8] for image in run.images] == [PNG, PNG]
        width, height = struct.unpack(">II", run.images[0][16:24])
        assert width > 300
        assert height > 200
        assert (folder / "bars.png").read_bytes().startswith(PNG)
        assert (await kernel.run("print('no figure is left')", 10)).images == []


async def test_a_figure_that_failed_code_has_drawn_comes_back_too(sandbox: Sandbox, folder: Path, roomy: SandboxLimits) -> None:
    async with kernel_in(sandbox, folder, roomy) as kernel:
        run = await kernel.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0", 60)
        assert run.failed
        assert len(run.images) == 1


async def test_a_figure_without_pyplot_is_shown_as_a_last_expression(
    sandbox: Sandbox, folder: Path, roomy: SandboxLimits
) -> None:
    async with kernel_in(sandbox, folder, roomy) as kernel:
        code = "from matplotlib.figure import Figure\nfigure = Figure()\nfigure.subplots().plot([1, 2])\nfigure"
        run = await kernel.run(code, 60)
        assert [image[:8] for image in run.images] == [PNG]


async def test_a_script_that_is_run_may_draw_too(sandbox: Sandbox, folder: Path, roomy: SandboxLimits) -> None:
    async with kernel_in(sandbox, folder, roomy) as kernel:
        folders.write_file(
            folder, "plot.py", [b"import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('p.png')\nplt.show()\n"]
        )
        assert await result_of(kernel, "!python3 plot.py && ls", 60) == "p.png\nplot.py"
