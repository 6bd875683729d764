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


PRINTS = """
import sys, time
from pathlib import Path
from xmcloud.runs.tee import Tee
if len(sys.argv) > 1:
    Tee(Path(sys.argv[1])).attach()
began = time.perf_counter()
for _ in range(100_000):
    print("epoch 1 loss 0.5")
print((time.perf_counter() - began) * 10, file=sys.stderr)
"""


def microseconds_a_print(*copy: str) -> float:
    """Of a line into a pipe that nobody waits for."""
    program = [sys.executable, "-c", PRINTS, *copy]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return float(done.stderr.splitlines()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XMCLOUD_HOME": home}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds_to_first_line(TWO_LINES, environment)  # compiles
        bare = seconds_to_first_line(BARE, environment)
        lines = seconds_to_first_line(TWO_LINES, environment)
        plain, copied = microseconds_a_print(), microseconds_a_print(str(Path(home, "output")))
    print(f"bare start        {bare * 1000:6.0f} ms")
    print(f"with two lines    {lines * 1000:6.0f} ms, {lines / bare:.1f} times the bare start")
    for series in (1, 4):
        print(f"{series} series a call   {microseconds_a_point(series):7.2f} us a point")
    print(f"a line printed    {plain:7.2f} us, {copied:.2f} us when it is copied")


if __name__ == "__main__":
    main()
