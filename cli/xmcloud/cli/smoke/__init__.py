"""`make smoke`: whether a deployment works, tried as a person would use it."""
