"""What is common to the resources of a job wherever it runs."""

from xmcloud.core.specs import JobSpec

ORDINARY = ("cpu", "memory", "disk")


def accelerator(spec: JobSpec) -> str:
    """The kind of accelerator that a job asks for; '' for none."""
    return next((name for name in spec.resources if name not in ORDINARY), "")
