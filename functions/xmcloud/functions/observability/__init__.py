"""What the control plane tells of itself: a line a request, metrics, and whether it is ready."""
