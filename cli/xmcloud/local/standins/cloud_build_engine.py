"""The Docker Engine of this machine, through its own command line."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Output = Callable[[bytes], None]
_DIGEST = re.compile(rb"digest: (sha256:[0-9a-f]{64})")
_CHUNK = 64 * 1024


class NoEngine(Exception):
    """Neither an image can be made nor pushed."""


class Engine:
    """`environ` says where it is, as for the docker program. Cancelling a call ends its work."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def check(self) -> None:
        """Raises `NoEngine`."""
        output = bytearray()
        code = await self._docker(["version", "--format", "{{.Server.Version}}"], output.extend)
        if code != 0:
            why = output.decode(errors="replace").strip().splitlines()[-1:] or ["no answer"]
            raise NoEngine(f"No Docker Engine answers here, and no image is made without: {why[0]}")

    async def build(
        self, args: Sequence[str], env: Mapping[str, str], workspace: Path, output: Output
    ) -> int:
        """The exit code of `docker build`, with the network of this machine."""
        buildkit = await self._has_buildkit()
        extra = [] if buildkit else ["--force-rm"]  # BuildKit leaves no containers
        return await self._docker(
            ["build", "--network", "host", *extra, *args],
            output,
            {**env, "DOCKER_BUILDKIT": "1" if buildkit else "0"},
            workspace,
        )

    async def pull(self, image: str, output: Output) -> int:
        return await self._docker(["pull", image], output)

    async def push(self, image: str, output: Output) -> str | None:
        """The digest of what the registry has now; None when it did not take it."""
        told = bytearray()

        def both(text: bytes) -> None:
            told.extend(text)
            output(text)

        code = await self._docker(["push", image], both)
        digest = _DIGEST.search(told)
        return digest[1].decode() if code == 0 and digest else None

    async def _has_buildkit(self) -> bool:
        return await self._docker(["buildx", "version"], lambda _: None) == 0

    async def _docker(
        self,
        args: Sequence[str],
        output: Output,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> int:
        try:
            process = await asyncio.create_subprocess_exec(
                "docker",
                *args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**self._environ, **(env or {})},
                cwd=folder,
            )
        except OSError as error:
            raise NoEngine(f"The program docker cannot be run: {error.strerror}.") from error
        try:
            assert process.stdout is not None
            while text := await process.stdout.read(_CHUNK):
                output(text)
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()  # the engine ends a build whose client is gone
                await process.wait()
