"""The metrics of a gateway, for Prometheus: counted by an observer and by what stands before the store and the checker, and
read from the gateway's state when they are asked for."""
