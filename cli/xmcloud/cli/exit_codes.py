"""What the exit status of a command means; the same table stands in `xmcloud --help`."""

from enum import IntEnum

from xmcloud.core.errors import XmcloudError


class ExitCode(IntEnum):
    OK = 0
    JOB_FAILED = 1
    DIFFERENT = 1
    UNWELL = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4
    NOT_SIGNED_IN = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.JOB_FAILED: (
        "a job failed or was stopped (run: the status of the command itself); "
        "diff, repro: something differs; doctor: something failed"
    ),
    ExitCode.USAGE: "the command line is wrong, or a value on it is",
    ExitCode.REFUSED: "not found, ambiguous, or not possible in this state",
    ExitCode.UNREACHABLE: "the control plane does not answer, or cannot do its work",
    ExitCode.NOT_SIGNED_IN: "not signed in, or not allowed",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}


def exit_code(error: XmcloudError) -> ExitCode:
    """The exit status for a refusal, from the status it has in HTTP."""
    if error.status in (401, 403):
        return ExitCode.NOT_SIGNED_IN
    if error.status in (400, 422):
        return ExitCode.USAGE
    return ExitCode.UNREACHABLE if error.status >= 500 else ExitCode.REFUSED
