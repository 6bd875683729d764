import gzip
import hashlib
from pathlib import Path

import pytest

from xmcloud.core.errors import StorageFull
from xmcloud.xm_cloud.archives.spool import Spool, stored_size


@pytest.mark.parametrize("size", [0, 1, 65534, 65535, 65536, 3 * 65535, 9_000_000])
def test_any_gzip_reads_it(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    with Spool() as spool:
        for start in range(0, size, 100_000):
            spool.write(data[start : min(size, start + 100_000)])
        spool.finish()
        packed = spool.file.read()
        assert (spool.size, spool.digest) == (len(packed), hashlib.sha256(packed).hexdigest())
    assert gzip.decompress(packed) == data[:size]
    assert len(packed) == stored_size(size)


def test_how_it_was_written_does_not_show() -> None:
    digests = set()
    for step in (1000, 65535, 200_000):
        with Spool() as spool:
            for start in range(0, 200_000, step):
                spool.write(b"x" * min(step, 200_000 - start))
            spool.finish()
            digests.add(spool.digest)
    assert len(digests) == 1


def test_a_full_disk_says_which(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    with Spool() as spool, pytest.raises(StorageFull, match=str(small_disk)):
        spool.write(b"x" * 10 * 1024 * 1024)
