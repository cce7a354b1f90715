"""How much code in a sandbox may use."""

from msgspec import Struct

MIB = 1024 * 1024
GIB = 1024 * MIB
# In /mnt/data, with folders. The gateway lists all of them after each run.
MOST_FILES = 5_000
# Bytes. Nothing is written for a sandbox that would fill the disk that the gateway's own data is on.
KEEP_FREE = 256 * MIB


class SandboxLimits(Struct, frozen=True):
    memory: int = GIB  # bytes, of all processes together, with what they write to /tmp and /dev/shm
    processes: int = 64  # with threads
    disk: int = GIB  # bytes in /mnt/data
    files: int = MOST_FILES
    output: int = 100_000  # bytes of the logs of one run, so at most as many characters
    seconds: float = 60.0  # of one run
    images: int = 20  # of one run
    image_bytes: int = 8 * MIB  # of one image
