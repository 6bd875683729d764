"""The flags of XManager's own that launch scripts are called with."""

import re
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xmcloud.core.errors import InvalidInput

BUILD_IMAGE_LOCALLY, WRAP_LATE_BINDINGS = "xm_build_image_locally", "xm_wrap_late_bindings"
USE_KANIKO, BUILD_TIMEOUT = "xm_use_kaniko", "xm_cloud_build_timeout_seconds"
KUBERNETES_ACCOUNT = "xm_k8s_service_account_name"

_USED: Mapping[str, str] = MappingProxyType(
    {
        BUILD_IMAGE_LOCALLY: "Build images with the Docker of this machine.",
        WRAP_LATE_BINDINGS: "Put vertex_utils and vizier_worker beside the code in images.",
        USE_KANIKO: "Have Cloud Build use kaniko, which caches every layer.",
        BUILD_TIMEOUT: "How long Cloud Build may take for an image.",
        KUBERNETES_ACCOUNT: "The service account of jobs whose Kubernetes(..) names none.",
    }
)
_BOOLEAN: Mapping[str, bool | None] = MappingProxyType(
    {
        BUILD_IMAGE_LOCALLY: False,
        WRAP_LATE_BINDINGS: False,
        "xm_use_docker_command": True,
        "xm_show_docker_command_progress": False,
        "xm_use_cloud_build_cache": False,
        USE_KANIKO: False,
        "xm_upgrade_db": False,
        "xm_use_multiplexer": None,
        "xm_subprocess_docker_impl": False,
    }
)
_TEXT: Mapping[str, str | None] = MappingProxyType(
    {
        BUILD_TIMEOUT: "1200",
        "xm_kaniko_cache_ttl": "336h",
        "xm_gcp_service_account_name": "xmanager",
        KUBERNETES_ACCOUNT: None,
        "xm_db_yaml_config_path": None,
        "xm_bazel_command": "bazel",
        "xm_open_multiplexer_window": None,
        "xm_gcs_path": None,
    }
)
_UNUSED = "Accepted; changes nothing."
_FALSE = ("false", "f", "0", "no", "n", "off")
_WORD = re.compile(r"--?(?P<no>no)?(?P<name>xm_\w+?)(=(?P<value>.*))?", re.DOTALL)

_given: dict[str, bool | str] = {}
"""Of a script that does not use absl."""


def build_image_locally() -> bool:
    return bool(_value(BUILD_IMAGE_LOCALLY))


def wrap_late_bindings() -> bool:
    return bool(_value(WRAP_LATE_BINDINGS))


def use_kaniko() -> bool:
    return bool(_value(USE_KANIKO))


def build_timeout_seconds() -> int:
    """Raises `InvalidInput`."""
    value = str(_value(BUILD_TIMEOUT) or _TEXT[BUILD_TIMEOUT])
    if not value.isdecimal() or not 60 <= int(value) <= 24 * 3600:
        raise InvalidInput(f"--{BUILD_TIMEOUT}", value, "seconds, 60 to 86400")
    return int(value)


def kubernetes_account() -> str:
    return str(_value(KUBERNETES_ACCOUNT) or "")


def _value(name: str) -> bool | str | None:
    absl = sys.modules.get("absl.flags")
    if absl is not None and name in absl.FLAGS and absl.FLAGS.is_parsed():
        value: bool | str | None = absl.FLAGS[name].value
        return value
    return _given.get(name)


def define() -> None:
    """Makes them flags of absl if the script uses it; those of its own stay as they are."""
    absl = sys.modules.get("absl.flags")
    if absl is None:
        return
    for name, default in _BOOLEAN.items():
        if name not in absl.FLAGS:
            absl.DEFINE_boolean(name, default, _USED.get(name, _UNUSED))
    for name, text in _TEXT.items():
        if name not in absl.FLAGS:
            absl.DEFINE_string(name, text, _USED.get(name, _UNUSED))


def unused(argv: Sequence[str]) -> list[str]:
    """Those on the command line that change nothing, without their values."""
    found = (_WORD.fullmatch(word) for word in argv)
    names = (each["name"] for each in found if each)
    return [name for name in names if name in {**_BOOLEAN, **_TEXT} and name not in _USED]


def without_own(argv: Sequence[str]) -> list[str]:
    """The command line for a script that parses it itself; what is taken out is remembered."""
    left: list[str] = []
    words = iter(argv)
    for word in words:
        found = _WORD.fullmatch(word)
        if found and found["name"] in _BOOLEAN:
            _given[found["name"]] = not found["no"] and (found["value"] or "").lower() not in _FALSE
        elif found and found["name"] in _TEXT and not found["no"]:
            value = next(words, "") if found["value"] is None else found["value"]
            _given[found["name"]] = value
        else:
            left.append(word)
    return left
