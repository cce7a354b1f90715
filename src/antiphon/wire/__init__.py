"""The protocols as msgspec Structs, without logic."""
