"""What Vertex AI asks for an hour of a job: an estimate, from a dated table of list prices."""

from datetime import date
from functools import cache
from importlib.resources import files

from xmcloud.core.base import Model
from xmcloud.core.machines import vertex_machine
from xmcloud.core.resources import accelerator
from xmcloud.core.specs import JobSpec, VertexOptions


class Rate(Model):
    """US dollars an hour; None where it is not known. Spot prices change up to once a day."""

    on_demand: float | None = None
    spot: float | None = None


class Prices(Model):
    """Of one region, without disks and network.

    A machine's rate includes the accelerators that come with it; those of `gpus` are added to the
    machine's, and those of `tpus` include the machine.
    """

    date: date
    region: str
    source: str
    machines: dict[str, Rate]
    gpus: dict[str, Rate]
    tpus: dict[str, Rate]

    def vertex(self, spec: JobSpec) -> float | None:
        """For all replicas of a job on Vertex AI. Raises `InvalidInput` if it fits no machine."""
        kind = accelerator(spec)
        count = spec.resources.get(kind, 0)
        machine = (vertex_machine(spec).machine_type, self.machines, 1.0)
        if kind in self.tpus:
            parts = [(kind, self.tpus, count)]
        elif kind in self.gpus:
            parts = [machine, (kind, self.gpus, count)]
        else:
            parts = [machine]
        spot = isinstance(spec.platform, VertexOptions) and spec.platform.spot
        total = 0.0
        for name, rates, times in parts:
            rate = rates.get(name, Rate())
            price = rate.spot if spot else rate.on_demand
            if price is None:
                return None
            total += times * price
        return round(total * spec.replicas, 6)


@cache
def list_prices() -> Prices:
    """The table of this version."""
    text = files("xmcloud.xm_cloud.planning").joinpath("prices.json").read_bytes()
    return Prices.model_validate_json(text)
