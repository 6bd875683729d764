"""Event files as their own library writes them."""

import io
import math
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboardX.proto.types_pb2 import DT_DOUBLE, DT_FLOAT, DT_STRING
from tensorboardX.record_writer import RecordWriter

from xmcloud.core.event_files import scalars
from xmcloud.core.series import Point

Value = Summary.Value
MATRIX = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1), TensorShapeProto.Dim(size=1)])


def written(folder: Path, *events: Event) -> bytes:
    path = folder / "events"
    writer = RecordWriter(str(path))
    for event in events:
        writer.write(event.SerializeToString())
    writer.close()
    return path.read_bytes()


def event(*values: Any, step: int = 1) -> Event:
    return Event(wall_time=5.5, step=step, summary=Summary(value=values))


def read(content: bytes) -> list[Point]:
    return list(scalars(io.BytesIO(content).read))


def test_numbers_are_found_in_whatever_form(tmp_path: Path) -> None:
    content = written(
        tmp_path,
        Event(wall_time=1.0, file_version="brain.Event:2"),
        event(Value(tag="plain", simple_value=0.5), Value(tag="größe", simple_value=math.inf)),
        event(Value(tag="list", tensor=TensorProto(dtype=DT_FLOAT, float_val=[1.5])), step=-2),
        event(Value(tag="bytes", tensor=TensorProto(dtype=DT_DOUBLE, tensor_content=bytes(8)))),
    )
    assert read(content) == [
        ("plain", 1, 0.5, 5.5),
        ("größe", 1, math.inf, 5.5),
        ("list", -2, 1.5, 5.5),
        ("bytes", 1, 0.0, 5.5),
    ]


def test_what_is_no_single_number_is_passed_over(tmp_path: Path) -> None:
    tensors = [
        TensorProto(dtype=DT_FLOAT, float_val=[1.5], tensor_shape=MATRIX),
        TensorProto(dtype=DT_FLOAT, float_val=[1.5, 2.5]),
        TensorProto(dtype=DT_STRING, string_val=[b"text"]),
        TensorProto(),
    ]
    values = [Value(tag="x", tensor=tensor) for tensor in tensors]
    image = Value(tag="image", image=Summary.Image(encoded_image_string=b"png"))
    last = Value(tag="last", simple_value=1.0)
    assert [point[0] for point in read(written(tmp_path, event(*values, image, last)))] == ["last"]


@pytest.mark.parametrize("cut", [1, 4, 5, 20])
def test_a_file_that_was_cut_off_has_the_numbers_before(tmp_path: Path, cut: int) -> None:
    values = [event(Value(tag="a", simple_value=n), step=n) for n in range(3)]
    assert [p[1] for p in read(written(tmp_path, *values)[:-cut])] == [0, 1]


@pytest.mark.parametrize("junk", [b"\xff" * 40, b"\x04" + bytes(11) + b"\x2a\xff\xff\x00" * 2])
def test_a_damaged_file_ends_where_the_damage_is(tmp_path: Path, junk: bytes) -> None:
    whole = written(tmp_path, event(Value(tag="a", simple_value=1)))
    assert [p[0] for p in read(whole + junk + whole)] == ["a"]
