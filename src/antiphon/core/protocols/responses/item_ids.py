"""What the id of an output item says beside its type.

A call that the gateway ran is one item with its result. The items alone do not show whether the model wrote the next one beside
this call, or after it had seen the result. Both are different messages to an engine, and a longer history has to begin with the
same messages as a shorter one. So the id of an item says so, which clients send back and stores keep.
"""

from typing import Any

_BESIDE = "_beside"


def beside_id(id: str) -> str:
    """Of an item that the model wrote in the same answer as a call before it that the gateway runs."""
    return id + _BESIDE


def is_beside(id: Any) -> bool:
    """`id`: as a client sent it. Without one, the model has seen the result."""
    return isinstance(id, str) and id.endswith(_BESIDE)
