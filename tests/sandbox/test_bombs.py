"""Code that uses up what there is: processes, memory, time, output, disk. It is contained, and the gateway goes on."""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
import pytest
from support.bubblewrap import SMALL, kernel_in, result_of

from antiphon.sandbox import folder as folders
from antiphon.sandbox.kernel import PNG, Kernel
from antiphon.sandbox.sandbox import Sandbox

# ---- processes ---------------------------------------------------------------------------------------------------------


async def test_a_fork_bomb_reaches_its_limit_and_no_more(kernel: Kernel) -> None:
    code = """
import os, time
def bomb():
    while True:
        try:
            os.fork()
        except BlockingIOError:
            time.sleep(0.01)
bomb()
"""
    running = asyncio.create_task(kernel.run(code, 2))
    most = 0
    while not running.done():
        most = max(most, len(kernel._process.cgroup.processes()))
        await asyncio.sleep(0.01)
    run = await running
    assert run.failed
    assert run.timed_out
    assert 8 < most <= SMALL.processes
    assert not kernel.is_alive
    assert kernel._process.cgroup.processes() == set()


async def test_a_fork_bomb_of_the_shell_is_contained_too(kernel: Kernel) -> None:
    run = await kernel.shell("bomb() { bomb | bomb & }; bomb; sleep 1; echo over", 5, 1000)
    assert run.exit_code != 0 or run.stdout.strip() == "over"
    await kernel.close()
    assert kernel._process.cgroup.processes() == set()


async def test_threads_count_as_processes(kernel: Kernel) -> None:
    code = """
import threading
stop = threading.Event()
count = 0
try:
    for count in range(100):
        threading.Thread(target=stop.wait).start()
except RuntimeError as failed:
    print(failed)
stop.set()
count < 30
"""
    assert await result_of(kernel, code) == "can't start new thread\nTrue"
    assert kernel.is_alive


async def test_what_was_left_running_is_paused_between_runs_and_ends_with_the_kernel(sandbox: Sandbox, folder: Path) -> None:
    async with kernel_in(sandbox, folder) as kernel:
        code = """
import os, time
if os.fork() == 0:
    os.setsid()
    number = 0
    while True:
        number += 1
        open('count', 'w').write(str(number))
        time.sleep(0.001)
while not os.path.exists('count'):
    time.sleep(0.001)
"""
        assert not (await kernel.run(code, 10)).failed
        assert len(kernel._process.cgroup.processes()) >= 3
        before = (folder / "count").read_text()
        await asyncio.sleep(0.3)
        assert (folder / "count").read_text() == before
        await kernel.run("import time; time.sleep(0.1)", 10)
        assert (folder / "count").read_text() != before
    assert kernel._process.cgroup.processes() == set()


# ---- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "data = []\nwhile True: data.append(b'x' * 1_000_000)",
        "for n in range(1000): open(f'/tmp/{n}', 'wb').write(b'x' * 1_000_000)\ndata = b'x' * 100_000_000",
        "import os\nwhile True: os.write(os.memfd_create('bomb'), b'x' * 1_000_000)",
        "import mmap\nmaps = []\nwhile True:\n    maps.append(mmap.mmap(-1, 1_000_000)); maps[-1].write(b'x' * 1_000_000)",
    ],
    ids=["heap", "tmp", "memfd", "mmap"],
)
async def test_a_memory_bomb_ends_the_interpreter_and_nothing_else(kernel: Kernel, code: str) -> None:
    run = await kernel.run(f"print('before')\n{code}", 30)
    if "No space left on device" in run.logs:  # the end of /tmp came first
        run = await kernel.run("data = b'x' * 100_000_000", 30)
    assert run.failed
    assert run.out_of_memory
    assert "128 MiB of memory" in run.logs
    assert "Variables are lost" in run.logs
    assert not kernel.is_alive


async def test_shared_memory_and_temporary_files_have_an_end(kernel: Kernel) -> None:
    code = """
for path in ('/tmp/file', '/dev/shm/file'):
    try:
        with open(path, 'wb') as file:
            for _ in range(200): file.write(b'x' * 1_000_000)
    except OSError as failed:
        print(path, failed.strerror)
    open(path, 'w').close()
"""
    answers = await result_of(kernel, code)
    # A file has a largest size, too.
    assert [line.split()[0] for line in answers.splitlines()] == ["/tmp/file", "/dev/shm/file"]
    assert kernel.is_alive


async def test_a_child_that_is_killed_for_its_memory_does_not_end_the_interpreter(kernel: Kernel) -> None:
    code = "import os, subprocess\nsubprocess.run(['python3', '-c', \"b'x' * 300_000_000\"]).returncode"
    assert await result_of(kernel, code) == "-9"
    assert await result_of(kernel, "1 + 1") == "2"
    run = await kernel.run("import os; os._exit(1)", 10)
    assert (run.failed, run.out_of_memory) == (True, False)


# ---- time --------------------------------------------------------------------------------------------------------------


async def test_an_endless_loop_is_interrupted_and_variables_are_kept(kernel: Kernel) -> None:
    run = await kernel.run("x = 5\nprint('begun')\nwhile True: pass", 0.5)
    assert run.timed_out
    assert run.failed
    assert run.logs.startswith("begun\n")
    assert "stopped after 0.5 seconds. Variables are kept" in run.logs
    assert "_notebook" not in run.logs
    assert await result_of(kernel, "x") == "5"


@pytest.mark.parametrize(
    "code",
    [
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    ],
    ids=["ignores", "catches", "c-code", "stops-itself"],
)
async def test_code_that_is_not_interrupted_is_ended(kernel: Kernel, code: str) -> None:
    run = await kernel.run(f"print('begun', flush=True)\n{code}", 0.5)
    assert run.timed_out
    assert run.logs.startswith("begun")
    assert "ended after 0.5 seconds. Variables are lost" in run.logs
    assert not kernel.is_alive
    assert (await kernel.run("1", 1)).failed


async def test_a_run_that_is_cancelled_is_ended(kernel: Kernel) -> None:
    running = asyncio.create_task(kernel.run("open('begun', 'w').close()\nwhile True: pass", 60))
    while not (kernel._folder / "begun").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not kernel.is_alive
    assert kernel._process.cgroup.processes() == set()


async def test_a_kernel_can_be_closed_while_code_runs(kernel: Kernel) -> None:
    running = asyncio.create_task(kernel.run("open('begun', 'w').close()\nwhile True: pass", 60))
    while not (kernel._folder / "begun").exists():
        await asyncio.sleep(0.01)
    await kernel.close()
    assert (await running).failed


# ---- output ------------------------------------------------------------------------------------------------------------


async def test_of_a_huge_output_its_beginning_and_its_end_are_kept(kernel: Kernel) -> None:
    run = await kernel.run("print('first')\nfor _ in range(100): print('x' * 1_000_000)\nprint('last')\n1 / 0", 60)
    assert run.logs.startswith("first\n")
    assert "last\nTraceback" in run.logs
    assert "ZeroDivisionError" in run.logs
    assert "bytes of output are left out here" in run.logs
    assert len(run.logs) < SMALL.output + 200


async def test_output_without_end_does_not_keep_the_gateway_from_its_work(kernel: Kernel) -> None:
    running = asyncio.create_task(kernel.run("import os\nwhile True: os.write(1, b'x' * 65536)", 1.5))
    worst = 0.0
    while not running.done():
        before = time.thread_time()
        await asyncio.sleep(0)
        worst = max(worst, time.thread_time() - before)
    assert (await running).timed_out
    assert worst < 0.1


async def test_output_that_a_child_keeps_open_does_not_delay_the_end_of_a_run(kernel: Kernel) -> None:
    run = await kernel.run("import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nprint('done')", 30)
    assert run.logs == "done\n"
    assert not run.timed_out


SHOW = "import sys\nshow = sys.modules['_notebook'].show_figures.__self__.image\n"


async def test_too_many_and_too_large_images_are_left_out(kernel: Kernel) -> None:
    run = await kernel.run(f"{SHOW}for _ in range(5): show({PNG!r})", 10)
    assert run.images == [PNG] * SMALL.images
    assert "Only the first 3 images are shown" in run.logs
    run = await kernel.run(f"show({PNG!r} + b'x' * {SMALL.image_bytes})", 20)
    assert run.images == []
    assert "An image of 8,388,616 bytes is left out" in run.logs
    assert kernel.is_alive


async def test_what_is_not_an_image_is_not_taken_for_one(kernel: Kernel) -> None:
    run = await kernel.run(f"{SHOW}show(b'<script>alert(1)</script>')", 10)
    assert (run.images, run.failed) == ([], False)


async def test_a_command_may_print_what_json_makes_longer(kernel: Kernel) -> None:
    run = await kernel.shell("head -c 2000000 /dev/zero", 20, 2_000_000)
    assert run.stdout == "\0" * 2_000_000


# ---- disk --------------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_too_large_is_not_written(kernel: Kernel, folder: Path) -> None:
    run = await kernel.run(f"with open('big', 'wb') as file:\n    file.truncate({SMALL.disk + 1})", 30)
    assert "File too large" in run.logs
    assert kernel.is_alive
    assert (folder / "big").stat().st_size == 0


UNLINKED = """
files = []
while True:
    files.append(open('nameless', 'wb')); os.unlink('nameless')
    files[-1].write(b'x' * 1_000_000); files[-1].flush(); time.sleep(0.01)
"""
MAPPED = """
import mmap
areas = []
while True:
    with open('nameless', 'w+b') as file:
        os.unlink('nameless')
        file.write(b'x' * 1_000_000); file.flush()
        number = os.dup(file.fileno())
        areas.append(mmap.mmap(number, 4096)); os.close(number)
    for opened in os.listdir('/proc/self/fd'):
        if os.path.islink(f'/proc/self/fd/{opened}') and 'nameless' in os.readlink(f'/proc/self/fd/{opened}'):
            os.close(int(opened))
    time.sleep(0.01)
"""
QUICK = """
files = []
for _ in range(20):
    files.append(open('nameless', 'wb')); os.unlink('nameless'); os.posix_fallocate(files[-1].fileno(), 0, 1_000_000)
"""


@pytest.mark.parametrize(
    "code",
    [
        "number = 0\nwhile True:\n    number += 1\n    open(f'big{number}', 'wb').write(b'x' * 1_000_000); time.sleep(0.01)",
        "number = 0\nwhile True:\n    number += 1\n    open(f'small{number}', 'wb').close(); time.sleep(0.001)",
        UNLINKED,
        MAPPED,
        QUICK,
        "while True:\n    os.mkdir('deeper'); os.chdir('deeper'); time.sleep(0.001)",
    ],
    ids=["bytes", "files", "unlinked", "mapped", "quick", "depth"],
)
async def test_a_disk_bomb_is_ended_and_what_it_wrote_is_removed(kernel: Kernel, folder: Path, code: str) -> None:
    folders.write_file(folder, "upload.csv", [b"1,2,3"])
    run = await kernel.run(f"import os, time\n{code}", 30)
    assert run.failed
    assert not run.timed_out
    assert "There is more in /mnt/data than it has room for" in run.logs
    assert not kernel.is_alive
    assert not folders.usage(folder, SMALL).exceeds(SMALL)
    assert (folder / "upload.csv").read_text() == "1,2,3"


FLOOD = """
import os, select, stat
(number,) = [int(name) for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}')
             and stat.S_ISSOCK(os.stat(f'/proc/self/fd/{name}').st_mode)][:1]
while True:
    try:
        os.write(number, (b'x' * 16 + b'D' + bytes(4)) * 40_000)
    except BlockingIOError:
        select.select([], [number], [])
"""


async def test_ctrl_c_in_the_gateways_terminal_does_not_reach_it(kernel: Kernel) -> None:
    """The terminal sends it to the processes of the session that it belongs to."""
    pid = kernel._process._process.pid
    assert os.getsid(pid) == pid != os.getsid(0)


async def test_answers_without_end_do_not_stop_the_gateway(kernel: Kernel) -> None:
    run = await asyncio.wait_for(kernel.run(FLOOD, 20), 10)
    assert run.failed
    assert not run.timed_out
    assert not kernel.is_alive


FORGE = """
import gc, json, struct, threading, time
(gateway,) = [each for each in gc.get_objects() if type(each).__name__ == 'Gateway']
mine = gateway.running
def answer():
    while gateway.running in (None, mine):
        time.sleep(0.005)
    body = json.dumps({'stdout': 'x' * 1_000_000, 'stderr': 'y' * 1_000_000, 'exit_code': 0}).encode()
    gateway._connection.sendall(gateway.running.encode().ljust(16) + b'S' + struct.pack('>I', len(body)) + body)
threading.Thread(target=answer, daemon=True).start()
"""


async def test_the_answer_of_a_command_is_never_longer_than_was_asked_for(kernel: Kernel) -> None:
    assert not (await kernel.run(FORGE, 20)).failed
    ran = await kernel.shell("sleep 20", 20, 100)
    assert (ran.stdout[:100], ran.stderr[:100]) == ("x" * 100, "y" * 100)
    assert max(len(ran.stdout), len(ran.stderr)) <= 200


async def test_a_machine_without_memory_ends_code_before_the_gateway(kernel: Kernel) -> None:
    assert (await kernel.run("print(open('/proc/self/oom_score_adj').read())", 20)).logs.strip() == "1000"


async def test_a_very_deep_folder_can_be_removed(sandbox: Sandbox, folder: Path) -> None:
    roomy = msgspec.structs.replace(SMALL, files=10_000)
    async with kernel_in(sandbox, folder, roomy) as kernel:
        code = """
import os
for _ in range(3000):
    os.mkdir('deeper'); os.chdir('deeper')
open('bottom', 'w').close()
os.chmod('.', 0)
"""
        await kernel.run(code, 30)
    folders.remove_folder(folder)
    assert not folder.exists()


# ---- the connection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.closerange(0, 4096)",
        "import os\nfor number in range(3, 64):\n    try: os.write(number, b'\\xff' * 4096)\n    except OSError: pass",
        "import os\nfor number in range(3, 64):\n    try: os.dup2(1, number)\n    except OSError: pass",
        "import os\nos._exit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import sys, json\njson.dumps = json.loads = None\nsys.modules.clear()",
    ],
    ids=["closes", "writes", "replaces", "exits", "kills-itself", "breaks-modules"],
)
async def test_code_that_breaks_the_connection_gets_an_answer_all_the_same(kernel: Kernel, code: str) -> None:
    run = await kernel.run(code, 2)
    if kernel.is_alive:
        run = await kernel.run("40 + 2", 2)
        assert run.logs.strip() == "42" or run.failed
    else:
        assert run.failed


async def test_the_answer_to_a_later_run_cannot_be_forged(kernel: Kernel) -> None:
    forge = """
import os, struct
for number in range(3, 64):
    try:
        os.write(number, b'0' * 16 + b'D' + struct.pack('>I', 1) + b'1')
    except OSError: pass
"""
    assert not (await kernel.run(forge, 5)).failed
    assert await result_of(kernel, "import time; time.sleep(0.3); print('a'); 6 * 7") == "a\n42"


async def test_a_copy_of_the_interpreter_does_not_answer_in_its_place(kernel: Kernel) -> None:
    code = "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('parent' if child else 'child')"
    assert (await result_of(kernel, code)).splitlines() == ["child", "parent"]
    assert await result_of(kernel, "'still ' + 'here'") == "'still here'"


ENDLESS, LEFT_BEHIND = "while True: pass", "import os\nif os.fork() == 0:\n    while True: pass"


@pytest.mark.parametrize("then", [ENDLESS, LEFT_BEHIND], ids=["running", "paused"])
async def test_what_a_killed_gateway_leaves_is_ended_at_the_latest_when_the_next_one_starts(
    sandbox: Sandbox, folder: Path, then: str
) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from support.bubblewrap import SMALL, real_sandbox
from antiphon.sandbox.kernel import Kernel
async def main():
    kernel = await Kernel.start(await real_sandbox(), Path(sys.argv[1]), SMALL)
    await kernel.run("open('begun', 'w').close()\\n" + sys.argv[2], 60)
    while not kernel.is_paused: pass
    Path(sys.argv[1], 'paused').touch()
    await asyncio.sleep(60)
asyncio.run(main())
"""
    paths = ":".join(path for path in sys.path if path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(folder), then, env={**os.environ, "PYTHONPATH": paths}
    )
    while not (folder / ("paused" if then is LEFT_BEHIND else "begun")).exists():
        assert process.returncode is None
        await asyncio.sleep(0.02)
    found = (Path(folder, name) for folder, names, _ in os.walk("/sys/fs/cgroup") for name in names)
    groups = [path for path in found if path.name.startswith(f"antiphon-sandbox-{process.pid}-")]
    assert groups
    process.kill()
    await process.wait()
    await sandbox.cgroups.remove_leftovers()
    assert not any(group.exists() for group in groups)
