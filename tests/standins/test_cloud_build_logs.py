"""The failed instruction is read from the log of whichever program built."""

import pytest

from xmcloud.adapters.gcp.build_logs import failed_step

_BUILDKIT = """\
#4 importing cache manifest from us-docker.pkg.dev/p/xmcloud/train:cache
#4 ERROR: us-docker.pkg.dev/p/xmcloud/train:cache: not found
#6 [2/4] COPY requirements.txt .
#6 DONE 0.0s
#7 [3/4] RUN pip install nothing-of-that-name
#7 1.2 ERROR: No matching distribution found
#7 ERROR: process "/bin/sh -c pip install nothing-of-that-name" did not complete: exit code: 1
------
 > importing cache manifest from us-docker.pkg.dev/p/xmcloud/train:cache:
------
------
 > [3/4] RUN pip install nothing-of-that-name:
1.2 ERROR: No matching distribution found
------
Dockerfile:3
--------------------
ERROR: failed to solve: process "/bin/sh -c pip install nothing-of-that-name" did not complete
"""
_STAGES = """\
------
 > [builder 2/2] RUN make:
------
"""
_CLASSIC = """\
Step 1/3 : FROM debian
Step 2/3 : RUN pip install x
 ---> Running in 0123456789ab
The command '/bin/sh -c pip install x' returned a non-zero code: 1
"""
_ENDLESS = """\
and so on
The command '/bin/sh -c yes | head' returned a non-zero code: 141
"""
_KANIKO = """\
INFO[0001] Retrieving image manifest debian
INFO[0002] Unpacking rootfs as cmd RUN make requires it.
INFO[0003] ENV A=1
INFO[0004] RUN make
INFO[0004] Running: [/bin/sh -c make]
error building image: error building stage: failed to execute command: exit status 2
"""


@pytest.mark.parametrize(
    ("log", "step"),
    [
        (_BUILDKIT, "RUN pip install nothing-of-that-name"),
        (_STAGES, "RUN make"),
        (_CLASSIC, "RUN pip install x"),
        (_ENDLESS, "RUN yes | head"),
        (_KANIKO, "RUN make"),
        (_CLASSIC[:60] + "\nPUSH\nPushing x\n", "push"),
        ("FETCHSOURCE\nERROR: no such object\n", ""),
        ("", ""),
    ],
)
def test_the_failed_step(log: str, step: str) -> None:
    assert failed_step(log) == step
    several = "".join(f'Step #1 - "image": {line}' for line in log.splitlines(keepends=True))
    if "PUSH" not in log:
        assert failed_step(several) == step
