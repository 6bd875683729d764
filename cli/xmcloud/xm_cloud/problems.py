"""From problem details back to the error that the control plane raised."""

from xmcloud.core import errors
from xmcloud.core.errors import InvalidInput, NotFound, Unauthorized, XmcloudError
from xmcloud.core.protocol import Problem

SIGN_IN = "Set XMCLOUD_TOKEN to a valid token, or unset XMCLOUD_URL to use this machine's own."


def error_of(problem: Problem) -> XmcloudError:
    """An error of the class that the problem's type names."""
    kind = _classes().get(problem.type.rpartition(":")[2]) or _by_status(problem)
    error = kind.__new__(kind)
    remedy = problem.remedy or (SIGN_IN if kind is Unauthorized else "")
    XmcloudError.__init__(error, problem.detail, remedy)
    if isinstance(error, InvalidInput):
        error.field = problem.field or ""
    return error


def _classes() -> dict[str, type[XmcloudError]]:
    return {kind.slug: kind for kind in vars(errors).values() if _is_error(kind)}


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, XmcloudError)


def _by_status(problem: Problem) -> type[XmcloudError]:
    """The class of what the web framework refused, or of a kind that only a newer version knows."""
    if problem.status == 404:
        return NotFound

    class Refused(XmcloudError):
        title, status = problem.title, problem.status

    return Refused
