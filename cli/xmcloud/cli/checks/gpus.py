"""The GPUs of this machine."""

import logging
from collections.abc import Iterator
from pathlib import Path

from xmcloud.cli.checks.check import Check
from xmcloud.worker.gpus import Driver, ask_driver

_NVIDIA, _DISPLAY = "0x10de", "0x03"
_DEVICES = Path("/sys/bus/pci/devices")


def check_gpus(devices: Path = _DEVICES) -> Iterator[Check]:
    # What it logs is told here.
    logging.getLogger("xmcloud.worker").addHandler(logging.NullHandler())
    yield gpu_check(ask_driver(), devices)


def gpu_check(driver: Driver, devices: Path) -> Check:
    """`devices` is where the kernel lists what is on the bus."""
    name = "GPUs"
    if driver.trouble:
        detail = f"NVIDIA's driver does not answer ({driver.trouble})"
        return Check.failed(name, detail, "nvidia-smi; after its update: sudo reboot")
    if driver.gpus:
        told = ", ".join(map(str, driver.gpus))
        return Check.ok(name, f"{told}; CUDA {driver.cuda}")
    if count := _on_the_bus(devices):
        detail = f"{count} of NVIDIA on the bus, but no driver answers"
        return Check.warning(name, detail, "Install NVIDIA's driver; then: nvidia-smi")
    return Check.ok(name, "none")


def _on_the_bus(devices: Path) -> int:
    return sum(
        _read(device / "vendor") == _NVIDIA and _read(device / "class").startswith(_DISPLAY)
        for device in devices.glob("*")
    )


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
