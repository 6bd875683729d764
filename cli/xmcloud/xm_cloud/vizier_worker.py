"""Tells a search how a trial went: stands for XManager's `vizier_worker` in a job.

Needs nothing else of xmcloud, so that the file can be copied beside the code.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path


class VizierWorker:
    """The measurements of one trial; the latest of each metric counts."""

    def __init__(self, trial_name: str) -> None:
        """Raises ValueError for a name that no search gave."""
        if "/trials/" not in trial_name:
            raise ValueError(f"trial_name is {trial_name!r}; pass the argument that the job got")
        self._results: dict[str, float] = {}

    def add_trial_measurement(self, step: int, metrics: Mapping[str, float]) -> None:
        self._results |= {"step": step, **metrics}
        self._write()

    def complete_trial(self, infeasible_reason: str | None = None) -> None:
        """With a reason, the trial gets no value. Raises RuntimeError then, to fail the job."""
        if infeasible_reason is not None:
            raise RuntimeError(f"the trial is infeasible: {infeasible_reason}")

    def _write(self) -> None:
        if path := os.environ.get("XMCLOUD_RESULTS"):
            Path(path).write_text(json.dumps(self._results), encoding="utf-8")
