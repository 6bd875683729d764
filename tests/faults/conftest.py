"""Control planes with workers, in folders of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """With a lease that nobody loses; the control plane runs."""
    site = Site(tmp_path)
    try:
        site.start_control()
        yield site
    finally:
        site.close()
