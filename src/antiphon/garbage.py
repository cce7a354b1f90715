"""When Python's garbage collector runs."""

import gc

# New objects after which it looks at them, and how many of these looks go by before it looks at older ones. Python's own 700 is
# for small programs: a thousand open streams are 300,000 objects, and what a response leaves behind is freed without the
# collector. This took about a tenth off a response, whole or streamed; higher figures gave no more.
THRESHOLDS = (5_000, 20, 20)


def collect_less() -> None:
    """Called once everything is set up: what there is by then stays, and is not looked at again."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
