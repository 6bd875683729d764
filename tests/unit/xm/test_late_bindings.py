"""Arguments that name another job of the group."""

from xmcloud import xm


def test_an_address_to_be_known_later_is_one_argument() -> None:
    address = xm.get_workerpool_address("workerpool0")
    assert address == "%objectname(workerpool0)%"
    args = xm.merge_args({"master": xm.ShellSafeArg(address), "port": 1}, [f"http://{address}/"])
    assert args.to_argv() == [f"--master={address}", "--port=1", f"http://{address}/"]
