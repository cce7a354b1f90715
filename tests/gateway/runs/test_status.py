"""What a gateway says about the responses that it runs."""

from typing import get_args

from antiphon.core.exchange.steps import Ask, Step
from antiphon.gateway.runs.status import STATES


def test_every_step_of_a_response_has_a_state() -> None:
    assert STATES.keys() == set(get_args(Step)) - {Ask}
