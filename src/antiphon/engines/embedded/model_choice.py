"""Which named model runs by default, and which one is recommended to a machine."""

import os
from pathlib import Path

from msgspec import Struct
from rich.filesize import decimal

from antiphon.engines.embedded.named_models import MODELS, SMALL, TOY, NamedModel, best
from antiphon.engines.embedded.pulled_models import pulled_file
from antiphon.installation import own_command
from antiphon.settings.settings import Settings, models_directory

# ---- How much memory this machine, or the container that we run in, has; and how much of a file a process has in it ----

# Where the kernel shows the limit of a container: version 2 of control groups, then version 1.
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    """Bytes; None if the system does not say. All of it, not what is free: that changes from one minute to the next."""
    known = [size for size in (_physical(), *map(_limit, limits)) if size is not None]
    return min(known, default=None)


def bytes_read_by(pid: int) -> int | None:
    """How much of the files that it has mapped, such as its model, a process has read. None: the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # Files of a file system in memory are counted apart.
    kilobytes = [int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssFile:", "RssShmem:"))]
    return sum(kilobytes) * 1024 if kilobytes else None


def _physical() -> int | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return size if size > 0 else None


def _limit(path: Path) -> int | None:
    """None: there is no such file, or no limit ("max")."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


# Of the machine's memory, what a model may take: the system and the programs of the user need the rest.
MOST_MEMORY = 0.8
# What a recommended model may take of it. With a larger part, a machine would be slow at everything, also at the model.
RECOMMENDED_MEMORY = 0.25
# Nobody is asked to download more than this, in bytes.
RECOMMENDED_SIZE = 8_000_000_000


class Machine(Struct, frozen=True):
    """Where models run, and how."""

    # Where pulled models are.
    folder: Path
    # Bytes; None if it is unknown.
    memory: int | None
    # As in the settings: tokens of one request, and how many requests run at once.
    context: int | None = None
    slots: int = 2

    def memory_for(self, model: NamedModel) -> int:
        return model.memory(self.context, self.slots)

    def fits(self, model: NamedModel, part: float = MOST_MEMORY) -> bool | None:
        """None: unknown."""
        return None if self.memory is None else self.memory_for(model) <= part * self.memory

    def pulled(self, models: tuple[NamedModel, ...] = MODELS) -> list[NamedModel]:
        return [model for model in models if pulled_file(model, self.folder) is not None]

    def default(self, models: tuple[NamedModel, ...] = MODELS) -> NamedModel:
        """The best of the pulled models that fit; the smallest download if there is none."""
        return best(model for model in self.pulled(models) if self.fits(model) is not False) or TOY

    def recommended(self, models: tuple[NamedModel, ...] = MODELS) -> NamedModel:
        """The best that leaves most of the machine to others. Where that is none, a small one, if it fits at all."""
        small = [] if self.fits(SMALL) is False else [SMALL]
        return best([*filter(self._is_modest, models), *small]) or TOY

    def _is_modest(self, model: NamedModel) -> bool:
        return model.size <= RECOMMENDED_SIZE and bool(self.fits(model, RECOMMENDED_MEMORY))

    def why_recommended(self) -> str:
        """The rule by which it was chosen, with the numbers of this machine, as the rest of a sentence about the model."""
        model = self.recommended()
        needs = decimal(self.memory_for(model))
        if self.memory is None:
            return f"it is small (it takes {needs}), and how much memory this machine has is not known"
        if self.fits(SMALL) is False:
            return f"nothing better fits: {SMALL.name} takes {decimal(self.memory_for(SMALL))}"
        if not self._is_modest(model):
            return f"it is the smallest that does real work, and fits: it takes {needs} of {decimal(self.memory)}"
        part = decimal(int(RECOMMENDED_MEMORY * self.memory))
        return f"it is the best that takes a quarter of the memory at most: {needs} of {part}{self._next_better(model)}"

    def _next_better(self, model: NamedModel) -> str:
        """Why it is not a better one."""
        better = min((each for each in MODELS if each.rank > model.rank), key=lambda each: each.rank, default=None)
        if better is None:
            return ""
        if not self.fits(better, RECOMMENDED_MEMORY):
            return f"; {better.name} takes {decimal(self.memory_for(better))}"
        return f"; {better.name} is a download of {decimal(better.size)}"


# ---- the machine of a gateway ----------------------------------------------------------------------------------------

BETTER_MODEL = "{name} is a toy. For a model that does real work: {command} pull {better} ({size}), then start again."
PULLED_MODEL = "{name} is a toy, and {better} is pulled. To use that one, stop the gateway, and start it again."


def this_machine(settings: Settings) -> Machine:
    return Machine(models_directory(settings), machine_memory(), settings.model_context, settings.model_slots)


def better_model(settings: Settings, model: str, machine: Machine | None = None) -> str | None:
    """A line for who runs the toy without having pulled anything better. `machine`: None for this one."""
    machine = machine or this_machine(settings)
    better = machine.recommended()
    if model != TOY.name or better is TOY or any(pulled.rank > TOY.rank for pulled in machine.pulled()):
        return None
    return BETTER_MODEL.format(name=model, command=own_command(), better=better.name, size=decimal(better.size))


def pulled_model(settings: Settings, model: str) -> str | None:
    """A line for who has pulled a better model since the gateway that runs the toy was started."""
    better = this_machine(settings).default()
    return PULLED_MODEL.format(name=model, better=better.name) if model == TOY.name and better is not TOY else None
