"""`tarfile` with safe extraction, which Python 3.11 has from its fourth release on."""

import sys

if sys.version_info >= (3, 12):
    import tarfile
else:
    from backports import tarfile

__all__ = ["tarfile"]
