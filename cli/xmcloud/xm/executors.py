"""Where and how a job runs: the bases that concrete executors extend."""

from typing import ClassVar

from xmcloud.xm.requirements import JobRequirements


class ExecutorSpec:
    """How an executable must be packaged to run on some executor."""


class Executor:
    """A platform and what a job needs of it; `Spec` says how its executables are packaged."""

    Spec: ClassVar[type[ExecutorSpec]]
    requirements: JobRequirements
