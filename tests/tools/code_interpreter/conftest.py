"""What runs code."""

import pytest
from support.kernels import ScriptedKernels


@pytest.fixture
def kernels() -> ScriptedKernels:
    return ScriptedKernels()
