"""What tests of the control plane share: a clock, builders and whole control planes."""
