"""What launch scripts take from XManager's `vizier`."""
