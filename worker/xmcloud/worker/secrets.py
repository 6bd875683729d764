"""Values of secrets: asked for when a job starts, and known again when its worker comes back."""

import asyncio
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from xmcloud.core.errors import LeaseLost
from xmcloud.core.models import Job
from xmcloud.core.worker_protocol import AttemptRef
from xmcloud.worker.client import ApiClient, Refused
from xmcloud.worker.redaction import Blindfold, Redactor


class SecretValues:
    """What the control plane tells the session that holds an attempt."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._session = ""
        self._connected = asyncio.Event()

    def connect(self, session: str) -> None:
        """To a new session."""
        self._session = session
        self._connected.set()

    async def of(self, job: Job) -> Mapping[str, str]:
        """By environment variable. Insists, in the next session if need be. Raises `Refused`."""
        if not job.spec.secrets:
            return {}
        attempt = AttemptRef(job_id=job.id, fence=job.fence)
        while True:
            await self._connected.wait()
            session = self._session
            try:
                return (await self._client.resolve_secrets(session, attempt)).values
            except LeaseLost:
                if session == self._session:
                    self._connected.clear()

    async def redactor_again(self, job: Job, fingerprint: Path) -> Redactor:
        """Of an attempt that has its values already, which may have been replaced meanwhile."""
        try:
            values = await self.of(job)
        except Refused:
            return Blindfold()
        known = await asyncio.to_thread(_is_of, fingerprint, values)
        return Redactor(values.values()) if known else Blindfold()


class _Fingerprint(BaseModel):
    """Tells values from others, and nothing else of them."""

    model_config = ConfigDict(frozen=True)

    salt: str
    digest: str


async def remember(values: Mapping[str, str], path: Path) -> None:
    """Raises OSError."""
    await asyncio.to_thread(_write, values, path)


def _write(values: Mapping[str, str], path: Path) -> None:
    salt = os.urandom(16)
    kept = _Fingerprint(salt=salt.hex(), digest=_digest(values, salt))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(kept.model_dump_json())


def _is_of(path: Path, values: Mapping[str, str]) -> bool:
    """Nothing was started where nothing was written: then there is nothing to be hidden."""
    try:
        kept = _Fingerprint.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return True
    except (OSError, ValidationError):
        return False
    return hmac.compare_digest(kept.digest, _digest(values, bytes.fromhex(kept.salt)))


def _digest(values: Mapping[str, str], salt: bytes) -> str:
    text = json.dumps(dict(sorted(values.items()))).encode()
    return hashlib.scrypt(text, salt=salt, n=2**14, r=8, p=1).hex()
