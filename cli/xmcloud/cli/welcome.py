"""What `xmcloud` alone says."""

from xmcloud.cli.complete import ask
from xmcloud.core.errors import XmcloudError
from xmcloud.xm_cloud.places import address

_PAGE = """\
xmcloud sends experiments to your own machines, to the cloud or to this laptop.

  xmcloud run -- python train.py     run one command, tracked
  xmcloud launch launch.py           run a launch script: sweeps, groups, several machines
  xmcloud list                       see what became of them

{state}
All commands: xmcloud --help"""


def welcome() -> str:
    return _PAGE.format(state=_state())


def _state() -> str:
    try:
        url = address().url
    except XmcloudError:
        return "No control plane runs here yet; the first run or launch starts one."
    if ask("/v1/health", timeout=1.0) is None:
        return f"The control plane at {url} does not answer. Start it: xmcloud up"
    return f"The control plane at {url} is running. Look closer: xmcloud status"
