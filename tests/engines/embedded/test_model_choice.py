"""Which model runs by default, and which one is recommended."""

from pathlib import Path

import pytest
from support.model_sources import a_model

from antiphon.engines.embedded.model_choice import Machine
from antiphon.engines.embedded.named_models import BY_NAME, TOY, NamedModel

GB = 1_000_000_000
SMALL = a_model(b"small", name="small", rank=1)
LARGE = a_model(b"large!", name="large", rank=2, cache_per_token=1000)


def pull(folder: Path, *models: NamedModel) -> None:
    for model in models:
        with (folder / f"{model.name}.gguf").open("wb") as file:
            # Without content: it takes no space.
            file.truncate(model.size)


def default(folder: Path, memory: int | None) -> str:
    return Machine(folder, memory).default((SMALL, LARGE)).name


def test_without_a_pulled_model_the_toy_runs(tmp_path: Path) -> None:
    assert default(tmp_path, 10 * GB) == default(tmp_path / "none", None) == "smollm2"


def test_the_best_pulled_model_runs(tmp_path: Path) -> None:
    pull(tmp_path, SMALL)
    assert default(tmp_path, 10 * GB) == "small"
    pull(tmp_path, LARGE)
    assert default(tmp_path, 10 * GB) == "large"
    assert default(tmp_path, None) == "large", "it was pulled, so its owner thinks that it fits"


def test_a_model_that_does_not_fit_does_not_run(tmp_path: Path) -> None:
    pull(tmp_path, SMALL, LARGE)
    # Two slots of 1024 tokens, a thousand bytes each.
    assert default(tmp_path, 2_000_000) == "small"
    assert Machine(tmp_path, 2_000_000, context=256).default((SMALL, LARGE)).name == "large"
    assert Machine(tmp_path, 2_000_000, slots=1).default((SMALL, LARGE)).name == "large"


def test_a_file_that_is_not_the_whole_model_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"sma")
    assert Machine(tmp_path, None).pulled((SMALL,)) == []


@pytest.mark.parametrize(
    ("memory", "name"),
    [
        (1 * GB, "smollm2"),
        (4 * GB, "qwen2.5-coder-1.5b"),
        (16 * GB, "qwen2.5-coder-1.5b"),
        (None, "qwen2.5-coder-1.5b"),
        (36 * GB, "qwen2.5-coder-7b"),
        (64 * GB, "qwen3-8b"),
        # Larger downloads are left to people who know that they want them.
        (512 * GB, "qwen3-8b"),
    ],
)
def test_the_recommended_model_leaves_most_of_the_machine_to_others(memory: int | None, name: str) -> None:
    assert Machine(Path("none"), memory).recommended() is BY_NAME[name]


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        (1 * GB, "nothing better fits: qwen2.5-coder-1.5b takes 3.0 GB"),
        (4 * GB, "it is the smallest that does real work, and fits: it takes 3.0 GB of 4.0 GB"),
        (
            16 * GB,
            "it is the best that takes a quarter of the memory at most: 3.0 GB of 4.0 GB; qwen2.5-coder-7b takes 8.4 GB",
        ),
        (None, "it is small (it takes 3.0 GB), and how much memory this machine has is not known"),
        (
            512 * GB,
            "it is the best that takes a quarter of the memory at most: 14.7 GB of 128.0 GB; "
            "gpt-oss-20b is a download of 12.1 GB",
        ),
    ],
)
def test_a_recommendation_has_its_reason(memory: int | None, why: str) -> None:
    assert Machine(Path("none"), memory).why_recommended() == why


def test_whether_a_model_fits_may_be_unknown() -> None:
    assert Machine(Path(), None).fits(TOY) is None
    assert Machine(Path(), 1 * GB).fits(TOY) is True
    assert Machine(Path(), GB // 10).fits(TOY) is False
