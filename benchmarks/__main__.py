"""`python -m benchmarks`: every figure of docs/performance.md, in one run."""

import tempfile
from pathlib import Path

import click

from benchmarks.claims import claim_latency
from benchmarks.costs import memory, operations
from benchmarks.environments import environments
from benchmarks.figures import Figure, show
from benchmarks.images import identical_build
from benchmarks.jobs import acceptance, launch_latency, throughput
from benchmarks.logs import live_tail, log_throughput, printing
from benchmarks.stack import Stack, running
from benchmarks.starts import command_starts, launch_start


def _embedded(stack: Stack, folder: Path, scale: float) -> list[Figure]:
    def scaled(count: int) -> int:
        return max(20, int(count * scale))

    figures = memory(stack)
    figures += launch_latency(stack, folder, scaled(200))
    figures += throughput(stack, scaled(1000))
    figures += acceptance(stack, folder, scaled(10_000))
    figures += command_starts(stack, scaled(20))
    figures += launch_start(stack, scaled(20))
    figures += claim_latency(stack, 100, scaled(100_000), 50)
    return figures


def _logs(stack: Stack, folder: Path, scale: float) -> list[Figure]:
    figures = live_tail(stack, max(20, int(200 * scale)))
    figures += log_throughput(stack, folder, max(100_000, int(2_000_000 * scale)))
    figures += printing(stack, folder, max(100_000, int(1_250_000 * scale)))
    return figures


def _emulated(stack: Stack, folder: Path, scale: float) -> list[Figure]:
    launch_latency(stack, folder, 50)
    return [
        *launch_latency(stack, folder, max(20, int(100 * scale))),
        *throughput(stack, max(20, int(200 * scale))),
        *acceptance(stack, folder, max(800, int(4000 * scale))),
    ]


@click.command()
@click.option("--emulators", is_flag=True, help="Measure on Google's emulators as well.")
@click.option("--only-emulators", is_flag=True, help="Measure on Google's emulators alone.")
@click.option("--images", is_flag=True, help="Measure builds as well; needs a Docker engine.")
@click.option("--logs", is_flag=True, help="Measure logs alone.")
@click.option("--scale", default=1.0, help="Fraction of the usual number of jobs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def main(
    emulators: bool, only_emulators: bool, images: bool, logs: bool, scale: float, as_json: bool
) -> None:
    """Measure the control plane and a worker on this machine."""
    figures = [] if logs else [*operations(), *environments()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if logs:
            with running(emulators=False) as stack:
                figures += _logs(stack, folder, scale)
        elif not only_emulators:
            with running(emulators=False) as stack:
                figures += _embedded(stack, folder / "embedded", scale)
                figures += _logs(stack, folder, scale)
                figures += identical_build(stack) if images else []
        if emulators or only_emulators:
            with running(emulators=True) as stack:
                figures += _emulated(stack, folder / "emulators", scale)
    show(figures, as_json)


main()
