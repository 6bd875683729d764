"""What launch scripts take from XManager's `cloud`."""
