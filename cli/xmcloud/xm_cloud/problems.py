"""From problem details back to the error that the control plane raised."""

from pydantic import ValidationError

from xmcloud.core import errors
from xmcloud.core.errors import (
    InvalidInput,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
    XmcloudError,
)
from xmcloud.core.protocol import Problem
from xmcloud.xm_cloud.places import on_this_machine

SIGN_IN = (
    "Sign in: xmcloud login URL. Or set XMCLOUD_TOKEN to a valid token, or unset XMCLOUD_URL to "
    "use this machine's own."
)


BUSY = frozenset({502, 503})


def refusal(url: str, status: int, content: bytes) -> XmcloudError:
    """What an answer with that status says, problem details or none."""
    try:
        return error_of(_of_versions(url, Problem.received(content)))
    except ValidationError:
        pass
    if status == 401:
        return Unauthorized(f"The control plane at {url} did not accept the token.", SIGN_IN)
    if status in BUSY or status in (RateLimited.status, 504):
        return unavailable(url, f"is not ready (HTTP {status})")
    return unavailable(url, f"answered HTTP {status}, not as xmcloud does")


def _of_versions(url: str, problem: Problem) -> Problem:
    """What an earlier version refuses, since it has never heard of it, in words of ours."""
    unknown_route = (problem.type, problem.status) == ("about:blank", 404)
    if not unknown_route and "Extra inputs are not permitted" not in problem.detail:
        return problem
    told = {
        "detail": f"The control plane at {url} does not know {problem.field or 'this'}.",
        "remedy": "It seems to be of an earlier version than this command: xmcloud doctor",
    }
    return problem.evolve(**told)


def unavailable(url: str, what: str) -> Unavailable:
    if on_this_machine(url):
        remedy = "Start it with `xmcloud up`, or set XMCLOUD_URL to the right address."
    else:
        remedy = f"See whether it is reached from here: curl -i {url}/v1/health"
    return Unavailable(f"The control plane at {url} {what}.", remedy)


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
