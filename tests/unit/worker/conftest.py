from collections.abc import Iterator

import pytest

from xmcloud.worker.family import set_subreaper


@pytest.fixture(autouse=True)
def _no_subreaper_afterwards() -> Iterator[None]:
    """Orphans of other tests are not for this process to collect."""
    yield
    set_subreaper(False)
