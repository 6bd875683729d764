from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcloud import xm
from xmcloud.core.arguments import command_line, render
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Argument, Command, JobSpec
from xmcloud.xm_cloud.arguments import to_protocol


class Optimizer(Enum):
    SGD = "sgd"


class Level(IntEnum):
    LOW = 1


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.sampled_from([Optimizer.SGD, Level.LOW])
)
values = scalars | st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(texts, inner, max_size=2)
    ),
    max_leaves=6,
)
collections = st.dictionaries(texts, values, max_size=5) | st.lists(values, max_size=5)


@pytest.mark.filterwarnings("ignore:argument")
@given(collections, collections)
def test_a_job_gets_the_argv_that_the_vocabulary_defines(first: Any, second: Any) -> None:
    arguments = xm.merge_args(first, second)
    spec = JobSpec(executable=Command(command=("x",)), arguments=to_protocol(arguments))
    sent = JobSpec.model_validate_json(spec.model_dump_json())
    assert render(sent.arguments) == arguments.to_argv()


def typed(value: object) -> object:
    [argument] = to_protocol(xm.SequentialArgs.from_collection({"flag": value}))
    return argument.value


@pytest.mark.filterwarnings("ignore:argument")
@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (False, False),
        (True, True),
        (None, None),
        ([None], [None]),
        (1.0, 1.0),
        ("1", "1"),
        pytest.param(1, 1, id="integer"),
        ((1, "a"), [1, "a"]),
        (Optimizer.SGD, "SGD"),
        ([Optimizer.SGD], ["SGD"]),
        ([[1, 2], [3]], "[[1, 2], [3]]"),
        ({"a": 1}, "{'a': 1}"),
        (float("inf"), "inf"),
        (2**63, str(2**63)),
    ],
)
def test_values_keep_their_type(value: object, sent: object) -> None:
    assert repr(typed(value)) == repr(sent)


def test_order_is_kept() -> None:
    arguments = xm.merge_args(["first"], {"b": 1, "a": 2}, ["last"])
    assert to_protocol(arguments) == (
        Argument(value="first"),
        Argument(name="b", value=1),
        Argument(name="a", value=2),
        Argument(value="last"),
    )


def test_a_shell_reads_only_what_is_safe_for_it() -> None:
    safe = xm.ShellSafeArg("$HOME")
    arguments = xm.merge_args([safe, "a b"], {"one": safe, "many": ["c d", safe, True]})
    sent = to_protocol(arguments)
    assert sent == (
        Argument(value="$HOME", shell=True),
        Argument(value="a b"),
        Argument(name="one", value="$HOME", shell=True),
        Argument(name="many", value=["c d"]),
        Argument(name="many", value="$HOME", shell=True),
        Argument(name="many", value=[True]),
    )
    assert command_line(["x"], sent)[-1] == (
        "exec x $HOME 'a b' --one=$HOME '--many=c d' --many=$HOME --many=True"
    )


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_no_process_can_receive_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="argument flag"):
        typed(text)
