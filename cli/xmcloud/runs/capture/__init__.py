"""What makes a run repeatable: its code, packages, entry point. Used by the reporter alone."""
