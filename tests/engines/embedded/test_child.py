"""The process of llama.cpp, where llama.cpp cannot be loaded."""

import sys
from pathlib import Path

import pytest

from antiphon.engines.embedded.child import Parameters, serve

PARAMETERS = Parameters(
    path="m.gguf", alias="m", port=1, key="k", context=1, slots=1, gpu_layers=0, threads=1, template=None, verbose=False
)


def test_a_library_of_the_system_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no missing extra: to install that again would not help."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(SystemExit, match=r"cannot be loaded: libgomp\.so\.1: .* apt-get install libgomp1"):
        serve(PARAMETERS)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(SystemExit) as ended:
        serve(PARAMETERS)
    assert str(ended.value.code).startswith("the embedded engine needs the extra embedded, which is not installed.")
