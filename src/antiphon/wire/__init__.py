"""The two protocols as msgspec Structs, without logic. Imports nothing else from Antiphon."""

import msgspec

# What decoding foreign JSON can raise: it is malformed, of the wrong shape, not UTF-8, or nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
