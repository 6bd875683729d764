"""What is masked of secrets, and that nothing depends on how a log is cut."""

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from xmcloud.worker.outputs import collect
from xmcloud.worker.redaction import NOTHING_SECRET, Blindfold, JobLog, Redactor
from xmcloud.worker.thinning import ThinLog

_KEY = "hunter22/+ü"
_LONG = "0123456789abcdef" * 100 + "the end of it"
_PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASC\n-----END KEY-----\n"


@pytest.mark.parametrize("value", [_KEY, "Pa55word", _LONG, _PEM, 'with "quotes" and \\'])
def test_every_common_way_to_write_a_value_is_masked(value: str) -> None:
    data = value.encode()
    redactor = Redactor([value])
    forms = [
        data,
        data.strip(),
        base64.b64encode(data),
        base64.urlsafe_b64encode(data),
        base64.b64encode(data + b"\n"),
        base64.encodebytes(data),
        quote(value).encode(),
        quote(value, safe="").encode(),
        json.dumps(value)[1:-1].encode(),
        repr(value)[1:-1].encode(),
        data.hex().encode(),
        data.replace(b"\n", b"\r\n"),
    ]
    for form in forms:
        text = b"<" + form + b">"
        masked = redactor.mask(text)
        assert len(masked) == len(text)
        hidden = masked[1:-1].translate(None, b"\r\n")
        assert hidden == b"*" * len(hidden), form
        assert masked[:1] + masked[-1:] == b"<>"


@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:"])
def test_a_value_within_what_is_encoded_is_masked(before: bytes) -> None:
    encoded = base64.b64encode(before + b"hunter22-hunter22" + b"@host")
    masked = Redactor(["hunter22-hunter22"]).mask(encoded)
    left = base64.b64decode(masked.replace(b"*", b"A"))
    assert not any(left[i : i + 2] in b"hunter22-hunter22" for i in range(5, 20) if left[i])


def test_lines_of_a_value_are_masked_by_themselves_and_ends_of_lines_stay() -> None:
    redactor = Redactor([_PEM])
    line = b"MIIEvQIBADANBgkqhkiG9w0BAQ"
    assert redactor.mask(b"> " + line + b"\r\n") == b"> " + b"*" * len(line) + b"\r\n"
    assert redactor.mask(_PEM.encode()).count(b"\n") == 4
    assert redactor.mask(b"EFAASC\n") == b"EFAASC\n"  # too short to be told from other words


def test_results_are_masked_wherever_a_text_is() -> None:
    redactor = Redactor(["hunter22", "12345678"])
    results: dict[str, JsonValue] = {
        "loss": 0.25,
        "hunter22": ["a hunter22", {"k": None}],
        "pin": 12345678,
    }
    assert redactor.json(results) == {
        "loss": 0.25,
        "********": ["a ********", {"k": None}],
        "pin": "********",
    }
    assert Blindfold().json(results) == {}
    assert Blindfold().text("exited with code 1\nhunter22") == "exited with code 1"


_VALUES = st.lists(
    st.text("ab\n", min_size=4, max_size=9).filter(lambda v: len(v.strip()) >= 4),
    min_size=1,
    max_size=3,
)


@given(_VALUES, st.data())
@settings(max_examples=150, deadline=None)
def test_however_it_is_cut_what_is_read_is_the_mask_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], data: st.DataObject
) -> None:
    pieces = data.draw(
        st.lists(st.one_of(st.sampled_from(values), st.text("ab\nx=", max_size=6)), max_size=12)
    )
    content = "".join(pieces).encode()
    redactor = Redactor(values)
    whole = redactor.mask(content)
    assert len(whole) == len(content)
    assert not any(value.encode() in whole for value in values)
    path = tmp_path_factory.mktemp("log") / "output.log"
    log = JobLog(path)
    log.mask_with(redactor)
    told = b""
    with path.open("ab", buffering=0) as file:
        at = 0
        while at < len(content):
            at += file.write(content[at : at + data.draw(st.integers(1, 5))])
            size = log.size()
            assert at - size <= redactor.reach
            while len(told) < size and data.draw(st.booleans()):
                told += log.read(len(told), data.draw(st.integers(1, 7)))
    log.whole = True
    assert log.size() == len(content)
    while piece := log.read(len(told), 4):
        told += piece
    assert told == whole
    start = data.draw(st.integers(0, len(content)))
    assert log.read(start, len(content)) == whole[start:]
    assert log.last(5) == whole[-5:]


def test_a_long_value_holds_little_back(tmp_path: Path) -> None:
    log, redactor = JobLog(tmp_path / "output.log"), Redactor(["k" * 60_000])
    log.mask_with(redactor)
    log.path.write_bytes(b"loss 1\n" + b"k" * 100)
    assert redactor.reach < 256
    assert log.read(0, 1000) == b"loss 1\n"
    log.path.write_bytes(b"loss 1\n" + b"k" * 100 + b"\nloss 2\n")
    assert log.read(0, 1000).endswith(b"loss 2\n")


def test_nothing_is_read_until_it_is_known_what_to_mask(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "output.log")
    log.path.write_bytes(b"first\nhunter22\n")
    log.hold()
    assert (log.size(), log.read(0, 100), log.last(100)) == (0, b"", b"")
    log.mask_with(Redactor(["hunter22"]))
    assert log.read(0, 100) == b"first\n********\n"
    log.mask_with(Blindfold(), told=6)
    assert log.read(0, 100) + log.read(6, 100) == b"first\n********\n"
    log.path.write_bytes(b"first\nhunter22\nanother\n")
    assert log.read(6, 100) == b"********\n*******\n"


def test_without_secrets_the_log_is_as_it_is(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "output.log")
    assert log.size() == 0
    content = os.urandom(1000)
    log.path.write_bytes(content)
    assert log.read(0, 2000) == NOTHING_SECRET.mask(content) == content


def test_what_was_thinned_before_is_told_while_the_rest_is_held(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "output.log")
    log.path.write_bytes(b"1%\r2%\rhunter22\nmore\n")
    log.mask_with(Redactor(["hunter22"]))
    thin = ThinLog(log)
    told = thin.read(0, 100, final=False)
    told += thin.read(len(told), 100, final=False)
    assert told == b"1%\r********\nmore\n"
    with log.path.open("ab") as file:
        file.write(b"3%\rhunter22 again\n")
    again = JobLog(log.path)
    again.hold()
    thin = ThinLog(again)
    assert thin.size() == len(told)
    assert thin.read(2, 100, final=False) == told[2:]
    assert thin.told_of(len(told)) == log.path.stat().st_size - len(b"3%\rhunter22 again\n")
    again.mask_with(Redactor(["hunter22"]))
    assert thin.size() > len(told)
    assert thin.read(len(told), 100, final=False) == b"******** again\n"


@pytest.mark.anyio
@pytest.mark.parametrize("left", [False, True], ids=["nothing", "a folder"])
async def test_results_are_masked_whatever_else_a_job_leaves(tmp_path: Path, left: bool) -> None:
    outputs = tmp_path / "shared" / "outputs"
    outputs.mkdir(parents=True)
    if left:
        (outputs / "run").mkdir()
    log = JobLog(tmp_path / "output.log")
    log.mask_with(Redactor(["hunter22"]))

    async def store(path: Path) -> str:
        return "0" * 64

    found = await collect(outputs, {"key": "hunter22"}, store, print, masked=log.json)
    assert found["key"] == "********"
