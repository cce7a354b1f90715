"""The containers of a gateway, as the settings ask for them."""

from pathlib import Path

from antiphon.ids import new_id
from antiphon.sandbox.containers.container_files import ContainerLimits, Uploads
from antiphon.sandbox.containers.container_ids import ids_in_slot
from antiphon.sandbox.containers.containers import Containers
from antiphon.sandbox.containers.kernels import Kernels
from antiphon.sandbox.containers.sandbox_kernels import SandboxKernels
from antiphon.sandbox.limits import SandboxLimits
from antiphon.settings.settings import Settings, cache_directory, data_directory


def make_containers(
    settings: Settings, uploads: Uploads, kernels: Kernels | None = None, slot: int | None = None
) -> Containers | None:
    """None: the settings switch them off. `kernels`: what runs code, in place of the sandbox. `slot`: of this worker process,
    if there are several."""
    chosen = settings.containers
    if not chosen.enabled:
        return None
    limits = ContainerLimits(
        chosen.most, chosen.most_per_key, memory=chosen.memory_limit, seconds=chosen.seconds, disk=chosen.disk_bytes
    )
    folder = Path(chosen.folder) if chosen.folder else cache_directory(settings) / "containers"
    bounds = SandboxLimits(disk=limits.disk, seconds=limits.seconds)
    packages = Path(chosen.packages) if chosen.packages else None
    private = [data_directory(settings), cache_directory(settings), folder]
    sandbox = kernels or SandboxKernels(bounds, packages=packages, private=private)
    ids = new_id if slot is None else ids_in_slot(slot, new_id)
    return Containers(sandbox, limits, folder, ids, uploads)
