"""The use cases: load, decide with `core.lifecycle`, apply conditionally, then publish."""
