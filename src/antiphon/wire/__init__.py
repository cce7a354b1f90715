"""The two protocols as msgspec Structs: no logic, and nothing of ours imported."""

import msgspec

# All that decoding somebody else's JSON can raise: malformed, of the wrong shape, not UTF-8, nested without end.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
