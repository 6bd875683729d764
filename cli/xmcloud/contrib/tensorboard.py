"""A TensorBoard server as an auxiliary unit."""

from collections.abc import Mapping
from typing import Any

from xmcloud import xm
from xmcloud.core.errors import InvalidInput

__all__ = ["NegativeTimeout", "TensorboardProvider", "add_tensorboard"]

_DAY_SECONDS = 24 * 60 * 60


class NegativeTimeout(InvalidInput, RuntimeError):
    """A server cannot run for less than no time."""

    def __init__(self, seconds: int) -> None:
        super().__init__("timeout_secs", seconds, "0, which sets no limit, or more seconds")


class TensorboardProvider:
    """What a server is made of."""

    DEFAULT_TENSORBOARD_PORT = 6006

    @staticmethod
    def get_tensorboard_packageable(timeout_secs: int) -> xm.PythonContainer:
        """A server that ends by itself after `timeout_secs` seconds; 0 sets no limit.

        Raises NegativeTimeout.
        """
        if timeout_secs < 0:
            raise NegativeTimeout(timeout_secs)
        return xm.PythonContainer(
            entrypoint=xm.CommandList([f"timeout {timeout_secs}s tensorboard"]),
            base_image="tensorflow/tensorflow",
        )

    @staticmethod
    def get_tensorboard_job_args(
        log_dir: str,
        port: int | None = None,
        additional_args: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Its flags, reachable from outside of its container; `additional_args` override them.

        The fast loader is off: it cannot use the identity that a pod has on Google Cloud.
        """
        return {
            "logdir": log_dir,
            "port": port or TensorboardProvider.DEFAULT_TENSORBOARD_PORT,
            "host": "0.0.0.0",  # noqa: S104
            "load_fast": "false",
            **(additional_args or {}),
        }


def add_tensorboard(
    experiment: xm.Experiment,
    logdir: str,
    executor: xm.Executor,
    timeout_secs: int = _DAY_SECONDS,
    args: Mapping[str, Any] | None = None,
) -> None:
    """Adds a server for `logdir`, which runs for `timeout_secs` seconds.

    With 0, it ends when the last work unit does. Raises NegativeTimeout.
    """
    container = TensorboardProvider.get_tensorboard_packageable(timeout_secs)
    [executable] = experiment.package([xm.Packageable(container, executor.Spec())])
    job = xm.Job(
        executable,
        executor,
        name="tensorboard",
        args=TensorboardProvider.get_tensorboard_job_args(logdir, additional_args=args),
    )
    experiment.add(xm.AuxiliaryUnitJob(job, termination_delay_secs=timeout_secs))
