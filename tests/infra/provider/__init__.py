"""A stand-in for Terraform providers: the real schema, plans and made-up results, no network."""
