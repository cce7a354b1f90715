"""How much of the store is searched for one page of a list. A search reads it whole, with what all other requests need too."""

from collections.abc import Sequence
from itertools import accumulate

ROWS = 500
BYTES = 16 * 1024 * 1024
# Of a conversation, the newest are searched: it may have any number of them.
ITEMS = 2000


def searched_rows(sizes: Sequence[int], most_bytes: int) -> int:
    """How many rows, of these sizes, are searched. The first one is, however long it is: the list must go on."""
    return max(1, sum(total <= most_bytes for total in accumulate(sizes)))
