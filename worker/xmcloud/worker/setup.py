"""What keeps a job from being started, and where it is told."""

LOG = "output.log"
"""What a job writes, and the steps of its setup before, in the folder of its attempt."""


class SetupFailed(Exception):
    """A job could not be started; says which step failed and what to do."""
