"""What a machine and a control plane need, and whether it is there."""
