"""What happens in a month, as it is billed: counted operations and what is assumed of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from tests.cost.pricing import PriceList, Usage, times, together

HOUR = 3600
MONTH_HOURS = 720
SWEEPS = MONTH_HOURS * 60
PERMIT_SUBSCRIPTIONS = 3
"""That a worker listens to: high, default and low."""

Counts = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Bill:
    """Usages by `counts`, priced by `prices`."""

    counts: Counts
    prices: PriceList

    def usage(self, scenario: str) -> Usage:
        """Of one scenario, each request by itself."""
        told, counts = self.prices.assumptions, self.counts[scenario]
        sweep = scenario.startswith("sweep")
        requests = counts.get("request", 0)
        seconds = requests * (told.sweep_seconds if sweep else told.request_seconds)
        logged = requests * (told.log_bytes_a_sweep if sweep else told.log_bytes_a_request)
        documents = counts.get("document-bytes", 0) * told.stored_factor
        return {**counts, **_busy(seconds), "log-bytes": logged, "document-bytes": documents}

    def idle_month(self, sweep: str = "sweep") -> Usage:
        """Nothing is connected; the sweep runs once a minute."""
        told = self.prices.assumptions
        starts = {"secret-read": told.starts_a_month}
        starting = _busy(told.starts_a_month * told.start_seconds)
        always = {"schedule": 1, "secret": 1}
        return together(times(self.usage(sweep), SWEEPS), always, starts, starting)

    def jobs(self, number: int, hours: float = 0) -> Usage:
        """Launched a hundred at a time, each alone on its worker while it runs."""
        return together(
            times(self.usage("launch of 100 jobs"), number / 100),
            times(self.usage("job from queue to end"), number),
            times(self.job_hour(), number * hours),
        )

    def job_hour(self) -> Usage:
        """Of a job and its worker."""
        return together(self.usage("job, an hour more"), self.usage("worker, an hour"))

    def workers(self, number: int, *, directly: bool) -> Usage:
        """Connected for a month without a job; permits come through the API or directly."""
        heard = times(self.usage("worker, an hour"), number * MONTH_HOURS)
        swept = times(self.usage("sweep, for each worker more"), (number - 1) * SWEEPS)
        pulls = MONTH_HOURS * HOUR / self.prices.assumptions.empty_pull_seconds
        asked = {"pubsub-bytes": number * PERMIT_SUBSCRIPTIONS * pulls * 1000}
        usage = together(heard, swept, asked)
        return usage if directly else {**usage, **_busy(self.awake(number) * MONTH_HOURS * HOUR)}

    def builds(self, number: int) -> Usage:
        minutes = {"build-minute": number * self.prices.assumptions.build_minutes}
        return together(times(self.usage("build"), number), minutes)

    def awake(self, waiting: int) -> int:
        """Instances that so many waiting requests keep at work."""
        return ceil(waiting / self.prices.assumptions.instance_requests)

    def instance_hour(self) -> Usage:
        return _busy(HOUR)


def _busy(seconds: float) -> Usage:
    """Instances are of one vCPU and one GiB."""
    return {"cpu-second": seconds, "gib-second": seconds}
