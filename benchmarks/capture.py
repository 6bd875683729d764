"""What the two lines of a run cost a script: `python -m benchmarks.capture`."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from xmcloud.runs.points import Points

STARTS = 20
POINTS = 100_000

BARE = "print(flush=True)"
TWO_LINES = f"import xmcloud; run = xmcloud.init(); {BARE}"


def seconds_to_first_line(program: str, environment: dict[str, str]) -> float:
    """Median, from the start of the interpreter to what comes after the two lines."""
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def microseconds_a_point(series: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        points = Points(Path(folder))
        scalars = {f"series {number}": 0.5 for number in range(series)}
        began = time.perf_counter()
        for step in range(POINTS // series):
            points.log(step, scalars)
        return (time.perf_counter() - began) / POINTS * 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XMCLOUD_HOME": home}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds_to_first_line(TWO_LINES, environment)  # compiles
        bare = seconds_to_first_line(BARE, environment)
        lines = seconds_to_first_line(TWO_LINES, environment)
    print(f"bare start        {bare * 1000:6.0f} ms")
    print(f"with two lines    {lines * 1000:6.0f} ms, {lines / bare:.1f} times the bare start")
    for series in (1, 4):
        print(f"{series} series a call   {microseconds_a_point(series):7.2f} us a point")


if __name__ == "__main__":
    main()
