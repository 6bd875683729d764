"""Who asks: tokens that requests carry, and where they come from."""
