"""The control plane as served: HTTP API, events, sweep, and the wiring of adapters."""
