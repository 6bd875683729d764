"""Secrets in one encrypted file, with its key beside it."""

import asyncio
import errno
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from xmcloud.core.errors import StorageFull
from xmcloud.core.secrets import SecretMissing, SecretsUnreadable, secret_key

T = TypeVar("T")


class FileSecrets:
    """The `Secrets` port on `secrets` and `secrets.key` in a folder.

    The key is made when it is first needed. It keeps values out of copies of the file alone, and
    from those who see neither: whoever reads the folder reads the secrets.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "secrets"
        self._key = folder / "secrets.key"
        self._lock = folder / "secrets.lock"

    async def put(self, project: str, name: str, value: bytes) -> None:
        def change(values: dict[str, str]) -> None:
            values[secret_key(project, name)] = value.decode("latin-1")

        await asyncio.to_thread(self._change, change)

    async def get(self, project: str, name: str) -> bytes:
        values = await asyncio.to_thread(self._read)
        found = values.get(secret_key(project, name))
        if found is None:
            raise SecretMissing(project, name)
        return found.encode("latin-1")

    async def delete(self, project: str, name: str) -> None:
        def change(values: dict[str, str]) -> None:
            values.pop(secret_key(project, name), None)

        await asyncio.to_thread(self._change, change)

    async def close(self) -> None:
        """There are no connections."""

    def _change(self, change: Callable[[dict[str, str]], None]) -> None:
        with self._alone():
            values = self._read()
            change(values)
            key = self._existing_key() or self._new_key()
            self._write(self._file, _encrypted(key, json.dumps(values).encode()))

    def _read(self) -> dict[str, str]:
        try:
            token = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        key = self._existing_key()
        if key is None:
            raise SecretsUnreadable(
                f"The key {self._key} of the file {self._file} is gone.",
                "Restore it from a backup, or remove the file and set the secrets again.",
            )
        plain = _decrypted(key, token)
        if plain is None:
            raise SecretsUnreadable(
                f"The file {self._file} is damaged, or {self._key} is not its key.",
                "Restore both from one backup, or remove both and set the secrets again.",
            )
        values: dict[str, str] = json.loads(plain)
        return values

    def _existing_key(self) -> bytes | None:
        """Raises `SecretsUnreadable` when others can read it."""
        try:
            mode = stat.S_IMODE(self._key.stat().st_mode)
            key = self._key.read_bytes()
        except FileNotFoundError:
            return None
        if mode & 0o077:
            raise SecretsUnreadable(
                f"The key {self._key} can be read by others (mode {mode:04o}).",
                f"Make it private: chmod 600 {self._key}; then set the secrets again, with new"
                " values.",
            )
        return key

    def _new_key(self) -> bytes:
        from cryptography.fernet import Fernet

        key = Fernet.generate_key()
        self._write(self._key, key)
        return key

    def _write(self, path: Path, data: bytes) -> None:
        """All of it or nothing, durable, for this user alone. Raises `StorageFull`."""
        new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(str(path)) from None
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Against other processes; a reader sees the file before or after."""
        with os.fdopen(os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _encrypted(key: bytes, data: bytes) -> bytes:
    from cryptography.fernet import Fernet

    return Fernet(key).encrypt(data)


def _decrypted(key: bytes, token: bytes) -> bytes | None:
    """None of what was not encrypted with this key, or was changed since."""
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return Fernet(key).decrypt(token)
    except (InvalidToken, ValueError):
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
