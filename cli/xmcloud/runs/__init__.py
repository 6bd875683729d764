"""Runs of plain scripts: captured where they start, or joined where a worker runs them."""
