"""Imported by its full name, as `use_deep_module` has it."""
