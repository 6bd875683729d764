"""What a job can require, and what cannot be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcloud import xm

GPUS = [
    "P4",
    "T4",
    "P100",
    "V100",
    "A100",
    "A100_80GIB",
    "L4",
    "L4_24TH",
    "H100",
    "H100_MEGA",
    "H200",
    "B200",
    "B300",
    "GB200",
    "GB300",
    "VR200",
    "B40_48TH",
    "local_gpu",
]
TPUS = ["V2", "V3", "V4", "V5E", "V5P", "V6E", "V7X"]


def test_units_are_powers_of_a_thousand_and_of_1024() -> None:
    assert [xm.KB, xm.MB, xm.GB, xm.TB, xm.PB] == [10**3, 10**6, 10**9, 10**12, 10**15]
    assert [xm.KiB, xm.MiB, xm.GiB, xm.TiB, xm.PiB] == [2**10, 2**20, 2**30, 2**40, 2**50]
    assert 2 * xm.vCPU == 2


@pytest.mark.parametrize("name", [*GPUS, *TPUS, *(f"TPU_{name}" for name in TPUS)])
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_every_accelerator_is_known_in_any_case(name: str, case: Any) -> None:
    requirements = xm.JobRequirements({case(name): 8})
    assert requirements.accelerator in xm.AcceleratorType
    assert requirements.accelerator == xm.ResourceType[name]
    assert requirements.accelerator_count == 8
    assert requirements.replicas == 1


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("cpu", xm.ResourceType.CPU),
        ("Ram", xm.ResourceType.MEMORY),
        ("memory", xm.ResourceType.MEMORY),
        ("DISK", xm.ResourceType.EPHEMERAL_STORAGE),
        ("ephemeral_storage", xm.ResourceType.EPHEMERAL_STORAGE),
    ],
)
def test_plain_resources_and_their_aliases(name: str, resource: xm.ResourceType) -> None:
    assert xm.JobRequirements({name: 4 * xm.GiB}).task_requirements == {resource: 2**32}


def test_aliases_name_one_accelerator() -> None:
    assert xm.ResourceType["V2"] is xm.ResourceType.TPU_V2
    assert xm.ResourceType["L4"] is xm.ResourceType.L4_24TH


def test_resources_are_given_by_keyword_name_or_type() -> None:
    by_type = xm.JobRequirements({xm.ResourceType.CPU: 2, xm.ResourceType.T4: 1})
    assert by_type == xm.JobRequirements({"cpu": 2}, T4=1) == xm.JobRequirements(T4="1", cpu="2")
    assert hash(by_type) == hash(xm.JobRequirements(cpu=2, t4=1))
    assert by_type != xm.JobRequirements(cpu=2)


@pytest.mark.parametrize(
    "other",
    [
        {"T4": 1, "location": "there"},
        {"T4": 1, "replicas": 2},
        {"T4": 1, "service_tier": xm.ServiceTier.BATCH},
        {"T4": 1, "num_slices": 2},
        {"T4": 2},
    ],
)
def test_requirements_differ_in_whatever_they_state(other: dict[str, Any]) -> None:
    assert xm.JobRequirements(T4=1) != xm.JobRequirements(**other)
    assert xm.JobRequirements(T4=1) != {"T4": 1}


@pytest.mark.parametrize(
    "same",
    [
        {"replicas": 1},
        {"num_slices": 1},
        {"service_tier": xm.ServiceTier.PROD},
        {"architecture": xm.Architecture.HASWELL},
    ],
)
def test_requirements_are_equal_when_defaults_are_spelled_out(same: dict[str, Any]) -> None:
    assert xm.JobRequirements(T4=1) == xm.JobRequirements(T4=1, **same)
    assert hash(xm.JobRequirements(T4=1)) == hash(xm.JobRequirements(T4=1, **same))


def test_the_place_and_tier_of_a_job_can_be_changed_later() -> None:
    requirements = xm.JobRequirements(T4=1, service_tier=xm.ServiceTier.PROD)
    requirements.service_tier = xm.ServiceTier.BATCH
    requirements.location = "there"
    changed = xm.JobRequirements(T4=1, service_tier=xm.ServiceTier.BATCH, location="there")
    assert (requirements, hash(requirements)) == (changed, hash(changed))


def test_tiers_are_known_in_any_case() -> None:
    assert xm.ServiceTier["batch"] is xm.ServiceTier.BATCH
    with pytest.raises(KeyError, match="unknown service tier 'cheap'"):
        _ = xm.ServiceTier["cheap"]


def test_nothing_is_required_by_default() -> None:
    requirements = xm.JobRequirements()
    assert requirements.task_requirements == {}
    assert requirements.accelerator is None
    assert requirements.topology is None
    assert requirements.accelerator_count == 0
    assert requirements.replicas == 1
    assert requirements.num_slices == 1
    assert requirements.location is None
    assert requirements.service_tier is xm.ServiceTier.PROD
    assert requirements.architecture is None


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cpuu", "'cpu'"),
        ("T5", "'T4'"),
        ("A1000", "'A100'"),
        ("TPU_V9", "'TPU_V"),
        ("diskk", "'disk'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(KeyError) as error:
        xm.JobRequirements({name: 1})
    assert str(error.value).startswith(
        f"unknown resource {name!r}; the nearest known name is {nearest}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"T4": 1, "V100": 1}, "not T4 and V100", id="two accelerators"),
        pytest.param({"T4": 1, "TPU_V2": 8}, "not T4 and TPU_V2", id="a GPU and a TPU"),
        pytest.param({"ram": 1, "memory": 1}, "MEMORY is given twice", id="a name and its alias"),
        pytest.param({"L4": 1, "L4_24TH": 1}, "given twice", id="an accelerator and its alias"),
        pytest.param({"t4": 1, "T4": 1}, "T4 is given twice", id="a name in two cases"),
        pytest.param({"cpu": "4x2"}, "no accelerator", id="a topology of CPUs"),
        pytest.param({"ram": xm.Topology("4x2")}, "no accelerator", id="a topology of memory"),
        pytest.param(
            {"ram": "4GiB"}, r"ram=4 \* xm.GiB", id="a quantity with its unit in a string"
        ),
        pytest.param({"T4": "4x"}, "no number", id="half a topology"),
        pytest.param({"T4": ""}, "no number", id="an empty string"),
        pytest.param({"cpu": None}, "give a number", id="None"),
        pytest.param({"cpu": float("nan")}, "give a number", id="not a number"),
        pytest.param({"ram": float("inf")}, "give a number", id="infinity"),
        pytest.param({"cpu": -1}, "not negative", id="a negative quantity"),
        pytest.param({"replicas": 0}, "whole number from 1", id="no replica"),
        pytest.param({"replicas": 1.5}, "whole number from 1", id="a fraction of a replica"),
        pytest.param({"replicas": "many"}, "whole number from 1", id="replicas that are no number"),
        pytest.param({"replicas": "1x2"}, "whole number from 1", id="a topology of replicas"),
        pytest.param({"T4": "4x2", "replicas": 3}, "spans 2 machines", id="conflicting replicas"),
        pytest.param({"T4": 4, "num_slices": 0}, "whole number from 1", id="no slice"),
        pytest.param({"T4": "4*3", "num_slices": 2}, "keep one", id="conflicting slices"),
        pytest.param({"T4": "4x2*3", "replicas": 2}, "spans 6 machines", id="replicas of slices"),
        pytest.param({"TPU_V4": "2x2*2"}, "does not come in slices", id="slices of TPUs"),
        pytest.param({"local_gpu": 1, "num_slices": 2}, "not come in slices", id="local slices"),
        pytest.param({"cpu": "4*2"}, "no accelerator", id="slices of CPUs"),
        pytest.param({"T4": "4*"}, "no number", id="a star without slices"),
        pytest.param(
            {"T4": 1, "architecture": xm.Architecture.ARM}, "only with HASWELL", id="architecture"
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        xm.JobRequirements(**arguments)


def test_a_resource_given_in_both_places_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU is given twice"):
        xm.JobRequirements({"cpu": 1}, cpu=2)


def test_replicas_can_be_given_among_the_resources() -> None:
    assert xm.JobRequirements({"replicas": 5}).replicas == 5
    assert xm.JobRequirements({"Replicas": "3", "cpu": "1"}).replicas == 3
    with pytest.raises(ValueError, match="replicas is given twice, as 6 and 5"):
        xm.JobRequirements({"replicas": 5}, replicas=6)


@pytest.mark.parametrize("count", [-1, 0.5, "-1", "0.5"], ids=repr)
@pytest.mark.parametrize("name", ["T4", "TPU_V2"])
def test_an_impossible_count_of_accelerators_is_refused(name: str, count: Any) -> None:
    with pytest.raises(xm.InvalidTpuTopologyError, match=name) as error:
        xm.JobRequirements({name: count})
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("name", ["", "4x", "x4", "0", "4x0", "-1", "4X2", "4x2_bent"])
def test_what_is_no_grid_is_no_topology(name: str) -> None:
    with pytest.raises(xm.InvalidTpuTopologyError):
        xm.Topology(name)


def test_a_topology_counts_its_chips() -> None:
    topology = xm.Topology("4x4x2_twisted")
    assert topology.dimensions == [4, 4, 2]
    assert topology.chip_count == 32
    assert repr(topology) == "xm.Topology('4x4x2_twisted')"
    assert topology != xm.Topology("4x4x2")


@pytest.mark.parametrize("name", sorted({*GPUS} - {"local_gpu", "B40_48TH"}))
def test_every_gpu_but_those_of_one_machine_infers_replicas(name: str) -> None:
    assert xm.JobRequirements({name: "4x2"}).replicas == 2


def test_a_topology_of_gpus_infers_its_replicas() -> None:
    requirements = xm.JobRequirements(T4="4x2")
    assert requirements.replicas == 2
    assert requirements.accelerator_count == 4
    assert requirements.task_requirements == {xm.ResourceType.T4: 8}
    assert requirements.topology == xm.Topology("4x2")
    assert xm.JobRequirements(T4="4x2", replicas=2).replicas == 2
    assert xm.JobRequirements(T4=xm.Topology("2x4x2")).replicas == 8


@pytest.mark.parametrize("name", ["TPU_V4", "local_gpu", "B40_48TH"])
def test_other_topologies_are_of_one_replica(name: str) -> None:
    requirements = xm.JobRequirements({name: "2x2"})
    assert requirements.replicas == 1
    assert requirements.accelerator_count == 4
    assert xm.JobRequirements({name: "2x2"}, replicas=3).replicas == 3


def test_slices_multiply_the_machines() -> None:
    requirements = xm.JobRequirements(GB300="4x18*3")
    assert requirements == xm.JobRequirements(GB300="4x18", num_slices=3)
    assert (requirements.num_slices, requirements.replicas) == (3, 54)
    assert requirements.accelerator_count == 4
    assert requirements.task_requirements == {xm.ResourceType.GB300: 72}
    assert xm.JobRequirements(T4=4, num_slices=2).replicas == 2


def test_merging_keeps_slices_until_others_are_stated() -> None:
    base = xm.JobRequirements(GB300=4, num_slices=2)
    assert base.merge(xm.JobRequirements(location="there")).num_slices == 2
    assert base.merge(xm.JobRequirements(GB300=4)).replicas == 2
    assert base.merge(xm.JobRequirements(num_slices=3)).replicas == 3


def test_requirements_of_several_jobs_add_up() -> None:
    first, second = xm.JobRequirements(cpu=1, T4=2), xm.JobRequirements(cpu=0.5, replicas=3)
    total = first.task_requirements + second.replicas * second.task_requirements
    assert total == {xm.ResourceType.CPU: 2.5, xm.ResourceType.T4: 2}
    assert isinstance(total, xm.ResourceDict)
    assert str(total) == "CPU: 2.5, T4: 2"
    assert repr(xm.ResourceDict({})) == "ResourceDict({})"
    assert first.task_requirements == {xm.ResourceType.CPU: 1, xm.ResourceType.T4: 2}


def test_a_count_is_for_each_replica() -> None:
    requirements = xm.JobRequirements(T4=2, replicas=3)
    assert requirements.replicas == 3
    assert requirements.accelerator_count == 2


def test_no_accelerators_are_no_accelerator() -> None:
    requirements = xm.JobRequirements(T4=0)
    assert requirements.accelerator is None
    assert requirements.accelerator_count == 0


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("T4", xm.Architecture.HASWELL),
        ("TPU_V2", xm.Architecture.HASWELL),
        ("GB200", xm.Architecture.ARM),
        ("local_gpu", None),
        ("cpu", None),
    ],
)
def test_an_accelerator_brings_its_architecture(
    name: str, architecture: xm.Architecture | None
) -> None:
    assert xm.JobRequirements({name: 1}).architecture is architecture


def test_an_architecture_can_be_asked_for_alone() -> None:
    arm = xm.Architecture.ARM
    assert xm.JobRequirements(architecture=arm).architecture is arm
    assert xm.JobRequirements(local_gpu=1, architecture=arm).architecture is arm


def test_merging_overrides_what_the_other_states() -> None:
    base = xm.JobRequirements(
        cpu=1, T4=2, location="here", replicas=2, service_tier=xm.ServiceTier.BATCH
    )
    other = xm.JobRequirements(ram=3, cpu=4, V100=1, architecture=xm.Architecture.HASWELL)
    assert base.merge(other) == xm.JobRequirements(
        cpu=4,
        ram=3,
        V100=1,
        location="here",
        replicas=2,
        service_tier=xm.ServiceTier.BATCH,
        architecture=xm.Architecture.HASWELL,
    )


def test_merging_overrides_places_replicas_and_tiers() -> None:
    base = xm.JobRequirements(location="here", replicas=2, service_tier=xm.ServiceTier.BATCH)
    other = xm.JobRequirements(location="there", replicas=1, service_tier=xm.ServiceTier.FREEBIE)
    merged = base.merge(other)
    assert merged == other
    assert (merged.location, merged.replicas) == ("there", 1)
    assert merged.service_tier is xm.ServiceTier.FREEBIE
    assert base.merge(xm.JobRequirements()).service_tier is xm.ServiceTier.BATCH


def test_merging_keeps_a_topology_and_what_it_infers() -> None:
    merged = xm.JobRequirements(T4="4x2").merge(xm.JobRequirements(cpu=1))
    assert merged.topology == xm.Topology("4x2")
    assert merged.replicas == 2


def test_merging_infers_replicas_from_the_accelerator_that_stays() -> None:
    topology = xm.JobRequirements(T4="4x2")
    assert topology.merge(xm.JobRequirements(T4=1)).replicas == 1
    assert xm.JobRequirements(T4=1, replicas=3).merge(topology).replicas == 2


def test_merging_can_take_an_accelerator_away() -> None:
    assert xm.JobRequirements(V100=1).merge(xm.JobRequirements(T4=0)).accelerator is None


plain = st.dictionaries(st.sampled_from(["cpu", "ram", "disk"]), st.integers(0, 2**40))
accelerated = st.dictionaries(
    st.sampled_from(["T4", "V100", "TPU_V2"]), st.integers(1, 8), max_size=1
)
stated = st.builds(lambda a, b: xm.JobRequirements({**a, **b}), plain, accelerated)


@given(stated, stated)
def test_merging_takes_all_of_the_other_and_the_rest_of_the_first(
    first: xm.JobRequirements, other: xm.JobRequirements
) -> None:
    merged = first.merge(other)
    assert other.task_requirements.items() <= merged.task_requirements.items()
    assert merged.accelerator == (other.accelerator or first.accelerator)
    assert xm.JobRequirements().merge(first) == first == first.merge(xm.JobRequirements())
    assert merged.merge(other) == merged


def test_families_hold_their_accelerators() -> None:
    assert xm.GpuType.T4 is xm.ResourceType.T4
    assert xm.TpuType["v2"] is xm.ResourceType.TPU_V2
    assert xm.ResourceType.TPU_V3 not in xm.GpuType
    local = {xm.ResourceType.LOCAL_GPU}
    assert set(xm.AcceleratorType) == set(xm.GpuType) | set(xm.TpuType) | local
    assert not local & xm.GpuType
    assert str(xm.ResourceType.CPU) == "CPU"


def test_a_family_does_not_know_other_resources() -> None:
    with pytest.raises(AttributeError, match="unknown resource 'CPU'"):
        _ = xm.GpuType.CPU
    with pytest.raises(AttributeError, match="unknown resource 'TPU_V2'"):
        xm.GpuType["TPU_V2"]
    with pytest.raises(KeyError, match="unknown resource 'TPU_V2'"):
        xm.GpuType["TPU_V2"]


def test_requirements_show_what_was_stated() -> None:
    requirements = xm.JobRequirements(
        cpu=1,
        GB200="4x2",
        location="here",
        architecture=xm.Architecture.ARM,
        service_tier=xm.ServiceTier.BATCH,
        num_slices=2,
    )
    assert repr(requirements) == (
        "xm.JobRequirements(cpu=1.0, gb200=xm.Topology('4x2'), location='here', "
        "architecture=xm.Architecture.ARM, service_tier=xm.ServiceTier.BATCH, num_slices=2)"
    )
    assert eval(repr(requirements), {"xm": xm}) == requirements
