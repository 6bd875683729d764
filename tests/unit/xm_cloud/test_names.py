"""The names that scripts import, and what importing them costs."""

import subprocess
import sys

import pytest

from xmcloud import xm_cloud, xm_local

WORKERS = "xmcloud.core.worker_protocol"


def test_both_modules_offer_the_same() -> None:
    assert xm_cloud.__all__ == xm_local.__all__
    for name in xm_cloud.__all__:
        assert getattr(xm_cloud, name) is getattr(xm_local, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = xm_cloud.Nothing


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        ("xmcloud.xm_cloud.client", ["httpx", "asyncio", "rich", "xmcloud.xm", WORKERS]),
        ("xmcloud.xm_local", ["httpx", "rich", "tarfile", "absl", WORKERS]),
    ],
)
def test_what_is_used_later_is_imported_later(module: str, spared: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {spared} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
