"""Arguments whose text is only known when the jobs of a group have started."""


def get_workerpool_address(workerpool: str) -> str:
    """Text that stands, within an argument, for the address of another job of the group."""
    return f"%objectname({workerpool})%"
