"""The two protocols as msgspec Structs: no logic, and nothing of ours imported."""
