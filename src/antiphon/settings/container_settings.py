"""The settings of containers: the table `[containers]` of antiphon.toml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class ContainerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[containers]`: where code of models is run."""

    # Run code of models: the tools code_interpreter and hosted shell, and /v1/containers. It needs bubblewrap, and a sandbox
    # that holds: that is probed at the start, and where it does not hold, requests for it are refused with the reason. False:
    # the tools are left out of requests, with a notice.
    enabled: bool = True
    # The most containers at a time.
    most: Annotated[int, Meta(ge=1)] = 32
    # The most containers of one key. A new one that a request makes by itself takes the place of the oldest of these.
    most_per_key: Annotated[int, Meta(ge=1)] = 8
    # The most memory that a request may ask for one container: "1g", "4g", "16g" or "64g". Without asking, it has "1g".
    memory_limit: Literal["1g", "4g", "16g", "64g"] = "1g"
    # Seconds that one run of code may take.
    seconds: Seconds = 60.0
    # The most bytes of the files in one container.
    disk_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 1024 * 1024 * 1024
    # A folder with Python packages that code may import. If it is not set: those that are installed beside the gateway, such as
    # the extra `code`.
    packages: str | None = None
    # The folder for the files of containers. If it is not set: one in `cache_dir`.
    folder: str | None = None
