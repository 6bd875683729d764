"""The HTTP API: parses requests into the protocol's types and calls the use cases."""
