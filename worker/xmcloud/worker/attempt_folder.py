"""The folder of an attempt on this machine."""

import os
from dataclasses import dataclass
from pathlib import Path

from xmcloud.worker.identity import Places
from xmcloud.worker.setup import LOG


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """Kept until the control plane took the end of the attempt.

    `checkpoint` is a folder of the job, which is there again for its next attempt here.
    """

    path: Path
    checkpoint: Path

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def results(self) -> Path:
        return self.shared / "results.json"

    @property
    def outputs(self) -> Path:
        return self.shared / "outputs"

    @property
    def allotment(self) -> Path:
        """What of the machine it was given."""
        return self.path / "allotment.json"

    @property
    def fingerprint(self) -> Path:
        """By which the values of its secrets are known again."""
        return self.path / "secrets.json"

    @property
    def packages(self) -> Path:
        """What was installed for it."""
        return self.path / "packages.txt"

    @property
    def shared(self) -> Path:
        """What a container sees as /xmcloud."""
        return self.path / "shared"

    @property
    def places(self) -> Places:
        return Places(str(self.results), str(self.outputs), str(self.checkpoint))

    def make(self) -> None:
        """Raises OSError."""
        self.outputs.mkdir(parents=True, exist_ok=True)
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
