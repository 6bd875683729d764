"""The estimate of what an hour costs."""

import pytest

from xmcloud.core.machine_sizes import FAMILIES, N1
from xmcloud.core.specs import Image, JobSpec, VertexOptions
from xmcloud.xm_cloud.planning.prices import list_prices

GIB = float(1 << 30)
UNKNOWN = {"b200", "gb200", "tpu-v7x"}


def spec(
    *, spot: bool = False, replicas: int = 1, topology: str = "", **resources: float
) -> JobSpec:
    return JobSpec(
        executable=Image(image="x"),
        resources={name.replace("_", "-"): amount for name, amount in resources.items()},
        topology=topology,
        pool="vertex",
        platform=VertexOptions(spot=spot),
        replicas=replicas,
    )


@pytest.mark.parametrize(
    ("asked", "dollars"),
    [
        (spec(), 0.218499),
        (spec(cpu=8, memory=16 * GIB), 0.436998),
        (spec(t4=1), 0.218499 + 0.4025),
        (spec(t4=2, replicas=3), 3 * (0.218499 + 2 * 0.4025)),
        (spec(a100=1), 4.224393),
        (spec(tpu_v5e=16, topology="4x4"), 16 * 1.38),
        (spec(h100=8, spot=True), 60.4532),
    ],
    ids=["least", "cpus", "gpu", "replicas", "gpu of the machine", "tpu slice", "spot"],
)
def test_a_machine_its_accelerators_and_replicas_are_added_up(
    asked: JobSpec, dollars: float
) -> None:
    assert list_prices().vertex(asked) == pytest.approx(dollars, abs=1e-5)


@pytest.mark.parametrize(
    "asked",
    [spec(spot=True), spec(t4=1, spot=True), spec(b200=8)],
    ids=["spot machine", "spot gpu", "machine"],
)
def test_what_is_not_in_the_table_has_no_price(asked: JobSpec) -> None:
    assert list_prices().vertex(asked) is None


def test_every_machine_that_a_job_may_get_has_a_price_or_is_known_to_have_none() -> None:
    prices = list_prices()
    machines = {size.machine_type for size in N1}
    for name, family in FAMILIES.items():
        if name.removesuffix("-24th") not in UNKNOWN | prices.gpus.keys() | prices.tpus.keys():
            machines |= {size.machine_type for size in family.sizes}
    assert machines == prices.machines.keys()
    assert prices.tpus.keys() | prices.gpus.keys() <= FAMILIES.keys()
