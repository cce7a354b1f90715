"""The protocol, without I/O: bytes and Structs in, bytes and Structs out.

No async, clock, randomness, logging or sockets in here; ids and time come in as arguments.
"""
