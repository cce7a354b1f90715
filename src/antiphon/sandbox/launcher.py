"""Starts bubblewrap where its limits count already: in its cgroups, below its rlimits, in a user namespace of our own.

A program of its own, without imports of ours, for all of this must happen between fork and exec. The gateway runs it with an
empty environment. What it is to do comes as JSON, as its only argument.
"""

import contextlib
import ctypes
import json
import os
import sys
from typing import Any

CLONE_NEWUSER = 0x10000000


def main(order: dict[str, Any]) -> None:
    import resource  # only Unix has it

    # Zero is the process that writes.
    for path in order["cgroups"]:
        with open(path, "w", encoding="ascii") as procs:
            procs.write("0")
    for name, value in order["rlimits"].items():
        kind = getattr(resource, name)
        most = resource.getrlimit(kind)[1]
        bound = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (bound, bound))
    # A machine that has no memory left ends what is inside before anything else.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")
    os.umask(0o022)
    arguments = [_argument(part) for part in order["command"]]
    if order["uid"] is not None:
        arguments = [str(_user_namespace(order["uid"])) if part == "{userns}" else part for part in arguments]
    # Paths of this machine are not left in the list of processes, which is visible inside.
    program = arguments.index("--")
    hidden = _file("\0".join(arguments[1:program]).encode())
    os.execv(arguments[0], [arguments[0], "--args", hidden, *arguments[program:]])


def _argument(part: str | dict[str, str]) -> str:
    """A text or bytes in hexadecimal become a file in memory, and the argument its number."""
    if isinstance(part, str):
        return part
    return _file(bytes.fromhex(part["hex"]) if "hex" in part else part["text"].encode())


def _file(content: bytes) -> str:
    file = os.memfd_create("content", 0)
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return str(file)


def _user_namespace(uid: int) -> int:
    """A namespace in which user 1000 is `uid` outside, one that nobody else has. Root is in it too: bubblewrap is root while it
    binds what only root may look up, and drops that before it starts anything."""
    ready, say_ready = os.pipe()
    finished, say_finished = os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWUSER) != 0:
            number = ctypes.get_errno()
            os.write(2, f"no user namespace can be made: {os.strerror(number)}\n".encode())
            os._exit(1)
        os.write(say_ready, b"1")
        os.close(say_finished)
        os.read(finished, 1)
        os._exit(0)
    os.close(say_ready)
    if os.read(ready, 1) != b"1":
        os._exit(1)
    for kind in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{kind}", "w", encoding="ascii") as file:
            file.write(f"0 0 1\n1000 {uid} 1\n")
    namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    os.set_inheritable(namespace, True)
    for end in (ready, finished, say_finished):
        os.close(end)
    os.waitpid(child, 0)
    return namespace


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as failed:
        sys.exit(f"the sandbox could not be started: {failed}")
