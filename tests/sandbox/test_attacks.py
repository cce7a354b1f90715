"""Code that tries to get out: to the network, to files, to other processes, to the kernel. None of it does."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest
from support.bubblewrap import kernel_in, result_of

from antiphon.sandbox import folder as folders
from antiphon.sandbox.kernel import Kernel
from antiphon.sandbox.sandbox import Sandbox

# ---- the network ---------------------------------------------------------------------------------------------------

CONNECT = """
import socket
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        try:
            one.connect(address)
        except OSError as failed:
            return type(failed).__name__ if failed.errno is None else __import__('errno').errorcode[failed.errno]
        return 'connected'
"""


async def test_a_server_on_this_machine_cannot_be_reached(kernel: Kernel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address, timeout=5):  # from outside it can
            pass
        assert await result_of(kernel, f"{CONNECT}\nconnect(socket.AF_INET, {address!r})") in (
            "'ECONNREFUSED'",
            "'ENETUNREACH'",
        )


async def test_its_loopback_is_its_own_and_the_only_interface(sandbox: Sandbox, kernel: Kernel, tmp_path: Path) -> None:
    listen = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\nserver.getsockname()"
    address = await result_of(kernel, listen)
    assert await result_of(kernel, f"{CONNECT}\nconnect(socket.AF_INET, {address})") == "'connected'"
    interfaces = "[line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]"
    assert await result_of(kernel, f"set({interfaces}) - {{'lo'}}") == "set()"
    async with kernel_in(sandbox, tmp_path / "other") as other:
        assert await result_of(other, f"{CONNECT}\nconnect(socket.AF_INET, {address})") == "'ECONNREFUSED'"


@pytest.mark.parametrize(
    ("family", "address"),
    [("AF_INET", ("192.0.2.1", 80)), ("AF_INET", ("169.254.169.254", 80)), ("AF_INET6", ("2001:db8::1", 80))],
)
async def test_no_other_machine_can_be_reached(kernel: Kernel, family: str, address: tuple[str, int]) -> None:
    assert await result_of(kernel, f"{CONNECT}\nconnect(socket.{family}, {address!r})") == "'ENETUNREACH'"


async def test_names_cannot_be_looked_up(kernel: Kernel) -> None:
    code = "import socket\ntry: socket.getaddrinfo('example.com', 80)\nexcept socket.gaierror: print('no')"
    assert await result_of(kernel, code) == "no"


async def test_sockets_of_this_machine_are_not_there_neither_files_nor_abstract_names(kernel: Kernel, tmp_path: Path) -> None:
    path, name = str(tmp_path / "socket"), f"\0antiphon-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as file, socket.socket(socket.AF_UNIX) as abstract:
        for server, address in ((file, path), (abstract, name)):
            server.bind(address)
            server.listen()
        assert await result_of(kernel, f"{CONNECT}\nconnect(socket.AF_UNIX, {path!r})") == "'ENOENT'"
        assert await result_of(kernel, f"{CONNECT}\nconnect(socket.AF_UNIX, {name!r})") == "'ECONNREFUSED'"


@pytest.mark.parametrize("family", ["AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"])
async def test_only_common_kinds_of_sockets_can_be_made(kernel: Kernel, family: str) -> None:
    number = getattr(socket, family, {"AF_BLUETOOTH": 31}.get(family))
    code = f"""
import errno, socket
try: socket.socket({int(number or 0)}, socket.SOCK_RAW)
except OSError as failed: print(errno.errorcode[failed.errno])
"""
    assert await result_of(kernel, code) == "EAFNOSUPPORT"


# ---- files -----------------------------------------------------------------------------------------------------------


async def test_the_files_of_this_machine_are_not_there(kernel: Kernel, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    repository = Path(__file__).parents[2]
    paths = [
        "/etc/shadow",
        "/etc/ssh",
        "/root",
        "/home",
        "/var",
        "/run",
        "/srv",
        "/sys",
        "/boot",
        "/work",
        str(secret),
        str(repository),
    ]
    assert await result_of(kernel, f"import os\n[path for path in {paths!r} if os.path.lexists(path)]") == "[]"


async def test_nothing_but_a_few_folders_is_there(kernel: Kernel) -> None:
    expected = {"bin", "dev", "etc", "lib", "lib64", "mnt", "opt", "proc", "sbin", "tmp", "usr", "lib32", "libx32"}
    shown = set((await result_of(kernel, "import os\nprint(*os.listdir('/'))")).split())
    assert shown <= expected
    assert (
        await result_of(kernel, "sorted(os.listdir('/etc'))")
        == "['alternatives', 'fonts', 'group', 'hosts', 'nsswitch.conf', 'passwd']"
    )
    assert await result_of(kernel, "os.listdir('/mnt')") == "['data']"


WRITE_EVERYWHERE = """
import os
written = []
for path in ('/', '/usr', '/usr/bin', '/etc', '/opt', '/opt/python', '/opt/packages/0', '/opt/notebook', '/dev', '/proc',
             '/mnt', '/proc/sys/kernel', '/tmp', '/dev/shm', '/mnt/data'):
    try:
        open(f'{path}/probe', 'w').close()
    except OSError:
        continue
    written.append(path)
written
"""


async def test_only_its_own_folders_can_be_written(kernel: Kernel) -> None:
    assert await result_of(kernel, WRITE_EVERYWHERE) == "['/tmp', '/dev/shm', '/mnt/data']"


async def test_nor_can_more_be_written_if_the_gateway_is_not_root(
    sandbox: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Then all folders that bubblewrap makes belong to the user inside.
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    async with kernel_in(sandbox, folder) as kernel:
        assert await result_of(kernel, WRITE_EVERYWHERE) == "['/tmp', '/dev/shm', '/mnt/data']"
        assert await result_of(kernel, RIGHTS) == str(["0" * 16] * 5 + ["1", "2"])


async def test_settings_of_the_kernel_cannot_be_changed(kernel: Kernel) -> None:
    code = """
changed = []
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/proc/self/oom_score_adj',
             '/proc/1/oom_score_adj', '/proc/self/uid_map', '/proc/self/setgroups'):
    try:
        with open(path, 'w') as file:
            file.write('-1000')
    except OSError:
        continue
    changed.append(path)
changed
"""
    assert await result_of(kernel, code) == "[]"


SAVE_ONESELF = """
import os
saved = []
def attempt(path):
    try:
        with open(path, 'r+') as score: score.write('0')
    except OSError: return
    saved.append(path)
for name in ('self', 'thread-self', '1', f'self/task/{os.getpid()}'):
    attempt(f'/proc/{name}/oom_score_adj')
    attempt(f'/proc/{name}/oom_adj')
child = os.fork()
if child == 0:
    attempt('/proc/self/oom_score_adj')
    os._exit(len(saved))
saved, os.waitpid(child, 0)[1], open('/proc/self/oom_score_adj').read().strip()
"""


@pytest.mark.parametrize("user", [0, 1234])
async def test_it_stays_the_first_that_a_machine_without_memory_ends(
    sandbox: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    async with kernel_in(sandbox, folder) as kernel:
        assert await result_of(kernel, SAVE_ONESELF) == "([], 0, '1000')"


async def test_files_that_are_open_can_be_written_by_their_names(kernel: Kernel) -> None:
    # /proc is read-only, and /dev/stdout leads through it.
    assert await result_of(kernel, "!(echo here > /dev/stdout; echo there > /proc/self/fd/1) | cat") == "here\nthere"


async def test_another_containers_files_are_not_there(sandbox: Sandbox, kernel: Kernel, folder: Path, tmp_path: Path) -> None:
    async with kernel_in(sandbox, tmp_path / "other") as other:
        await other.run("open('/mnt/data/theirs.txt', 'w').write('secret'); open('/tmp/theirs.txt', 'w').write('secret')", 10)
        paths = ["/mnt/data/theirs.txt", "/tmp/theirs.txt", str(tmp_path / "other")]
        code = f"import os\n[os.path.lexists(path) for path in {paths!r}]"
        assert await result_of(kernel, code) == "[False, False, False]"
    assert (tmp_path / "other" / "theirs.txt").read_text() == "secret"


async def test_two_containers_are_two_users_outside_and_neither_is_ours(
    sandbox: Sandbox, kernel: Kernel, folder: Path, tmp_path: Path
) -> None:
    async with kernel_in(sandbox, tmp_path / "other") as other:
        for one in (kernel, other):
            await one.run("open('/mnt/data/mine', 'w').close()", 10)
    users = {(folder / "mine").stat().st_uid, (tmp_path / "other" / "mine").stat().st_uid}
    assert len(users) == 2
    assert os.geteuid() not in users


async def test_a_link_out_of_the_folder_leads_nowhere_inside_and_is_not_followed_outside(
    kernel: Kernel, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("key")
    await kernel.run(
        f"""
import os
os.symlink({str(tmp_path / "secret")!r}, 'file.txt')
os.symlink('../secret', 'relative.txt')
os.symlink('/', 'root')
os.symlink({str(tmp_path)!r}, 'folder')
os.mkdir('real'); open('real/plain.txt', 'w').write('plain')
""",
        10,
    )
    assert [file.path for file in folders.list_files(folder)] == ["real/plain.txt"]
    for path in (
        "file.txt",
        "relative.txt",
        "root/etc/passwd",
        "folder/secret",
        "../secret",
        "real/../../secret",
        "/etc/passwd",
    ):
        with pytest.raises(folders.NotAFile):
            folders.open_file(folder, path)
    assert (
        await result_of(kernel, "[os.path.exists(name) for name in ('file.txt', 'relative.txt', 'folder')]")
        == "[False, False, False]"
    )


async def test_an_upload_replaces_a_link_and_does_not_write_through_it(kernel: Kernel, folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    await kernel.run(
        f"import os; os.symlink({str(victim)!r}, 'report.csv'); os.link('report.csv', 'hard.csv', follow_symlinks=False)", 10
    )
    for name in ("report.csv", "hard.csv"):
        folders.write_file(folder, name, [b"uploaded"])
    assert victim.read_text() == "untouched"
    assert (folder / "report.csv").read_text() == "uploaded"
    assert await result_of(kernel, "open('report.csv', 'a').write('!'); open('report.csv').read()") == "'uploaded!'"


async def test_files_that_do_not_end_and_names_that_are_no_text_stop_nobody(kernel: Kernel, folder: Path) -> None:
    code = """
import os, socket
os.mkfifo('pipe')
one = socket.socket(socket.AF_UNIX); one.bind('socket')
open('two\\nlines.txt', 'w').write('1')
open(b'\\xff\\xfe.txt', 'w').write('2')
try: os.mknod('device', 0o666 | 0o060000, os.makedev(254, 0))
except OSError: print('no device')
"""
    assert await result_of(kernel, code) == "no device"
    assert [file.path for file in await asyncio.to_thread(folders.list_files, folder)] == ["two\nlines.txt"]
    for name in ("pipe", "socket"):
        with pytest.raises(folders.NotAFile):
            folders.open_file(folder, name)


async def test_a_hard_link_to_a_file_outside_of_the_folder_cannot_be_made(kernel: Kernel) -> None:
    code = """
import os
try: os.link('/opt/notebook/_notebook.py', '/mnt/data/link')
except OSError as failed: print(failed.strerror)
"""
    assert await result_of(kernel, code) in ("Invalid cross-device link", "Operation not permitted")


# ---- the gateway, its environment, and other processes ---------------------------------------------------------------


async def test_the_gateways_environment_is_not_visible(sandbox: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    monkeypatch.setenv("ANTIPHON_SEAL_KEY", "seal-of-the-operator")
    code = """
import glob, os
seen = [str(os.environ)]
for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):
    try:
        seen.append(open(path).read())
    except OSError:
        pass
'of-the-operator' in str(seen), len(seen) > 2
"""
    async with kernel_in(sandbox, folder) as kernel:
        assert await result_of(kernel, code) == "(False, True)"


async def test_the_list_of_processes_shows_no_path_of_this_machine(kernel: Kernel, folder: Path) -> None:
    code = "import glob\nprint([open(path).read() for path in glob.glob('/proc/[0-9]*/cmdline')])"
    shown = await result_of(kernel, code)
    assert "bwrap" in shown
    assert str(folder) not in shown
    assert sys.prefix not in shown


async def test_only_its_own_processes_exist(kernel: Kernel) -> None:
    code = f"""
import os, signal
pids = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
def signalled(pid):
    try: os.kill(pid, signal.SIGKILL)
    except OSError as failed: return type(failed).__name__
    return 'killed'
pids, signalled({os.getpid()}), signalled(1)
"""
    # The first process is bubblewrap's, whose end would be that of the sandbox.
    assert await result_of(kernel, code) == "([1, 2], 'ProcessLookupError', 'PermissionError')"


async def test_the_roots_of_processes_show_nothing_else(kernel: Kernel) -> None:
    code = """
import glob, os
seen = set()
for path in glob.glob('/proc/*/root') + glob.glob('/proc/*/cwd') + ['/proc/self/task/2/root']:
    try: seen |= set(os.listdir(path))
    except OSError: pass
'root' in seen or 'home' in seen or 'var' in seen
"""
    assert await result_of(kernel, code) == "False"


async def test_no_open_file_of_the_gateway_is_inherited(kernel: Kernel) -> None:
    code = """
import os
paths = [f'/proc/self/fd/{number}' for number in os.listdir('/proc/self/fd')]
sorted({os.readlink(path).split(':')[0] for path in paths if os.path.lexists(path)})
"""
    assert await result_of(kernel, code) == "['/dev/null', 'pipe', 'socket']"


# ---- the kernel ------------------------------------------------------------------------------------------------------

CALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *map(ctypes.c_long, arguments))
    return errno.errorcode.get(ctypes.get_errno(), 'done') if result < 0 else 'done'
"""


RIGHTS = """
lines = dict(line.split(':', 1) for line in open('/proc/self/status'))
[lines[name].strip() for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')]
"""


async def test_it_has_no_rights_and_cannot_get_any(kernel: Kernel) -> None:
    assert await result_of(kernel, RIGHTS) == str(["0" * 16] * 5 + ["1", "2"])


async def test_it_cannot_become_another_user(kernel: Kernel) -> None:
    code = """
import os, subprocess
def attempt(function, *arguments):
    try: function(*arguments)
    except OSError as failed: return type(failed).__name__
    return 'done'
print([attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0]), attempt(os.chroot, '/tmp')])
print(subprocess.run(['su', '-c', 'id'], capture_output=True, stdin=subprocess.DEVNULL).returncode != 0, os.getresuid())
"""
    assert await result_of(kernel, code) == f"{['PermissionError'] * 4}\nTrue (1000, 1000, 1000)"


async def test_no_namespace_can_be_made_inside(kernel: Kernel) -> None:
    flags = [0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x02000000, 0x08000000, 0x04000000]
    code = f"{CALL}\nimport platform\nclone = 56 if platform.machine() == 'x86_64' else 220\n"
    code += f"print({{libc.unshare(flag) for flag in {flags}}})\n"
    code += f"print({{call(clone, flag | 17, 0, 0, 0, 0) for flag in {flags}}}, call(435, 0, 0))"
    assert await result_of(kernel, code) == "{-1}\n{'EPERM'} ENOSYS"


async def test_calls_that_others_got_out_by_are_denied(kernel: Kernel) -> None:
    from antiphon.sandbox.seccomp import DENIED

    numbers = {call.name: (call.x86_64, call.aarch64) for call in DENIED}
    code = f"""{CALL}
import platform
column = 0 if platform.machine() == 'x86_64' else 1
answers = {{name: call(pair[column], 0, 0, 0, 0, 0, 0) for name, pair in {numbers!r}.items() if pair[column] is not None}}
allowed = {{name: answer for name, answer in answers.items() if answer not in ('EPERM', 'ENOSYS')}}
print(allowed, call(463, 0), call(0x40000000 + 39))
"""
    assert await result_of(kernel, code) == "{} ENOSYS ENOSYS"


async def test_the_terminal_cannot_be_typed_into(kernel: Kernel) -> None:
    code = """
import errno, fcntl, os
answers = []
for request in (0x5412, 0x541C):
    try: fcntl.ioctl(1, request, b'x')
    except OSError as failed: answers.append(errno.errorcode[failed.errno])
try: os.open('/dev/tty', os.O_RDWR)
except OSError as failed: answers.append(errno.errorcode[failed.errno])
answers
"""
    assert await result_of(kernel, code) == "['EPERM', 'EPERM', 'ENXIO']"


async def test_calls_of_another_architecture_end_the_process(kernel: Kernel) -> None:
    # getpid() by the 32-bit entry, whose numbers mean other calls: mov eax, 20; int 0x80; ret
    code = """
import ctypes, mmap, os, platform
pid = os.fork()
if pid == 0:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('b814000000cd80c3') if platform.machine() == 'x86_64' else b'\\0' * 8)
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)
os.WIFSIGNALED(os.waitpid(pid, 0)[1])
"""
    assert await result_of(kernel, code) == "True"
