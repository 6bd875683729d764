"""Two lines capture a run: `import xmcloud` and `run = xmcloud.init(title="..")`.

The rest of the package lies in other folders too: docs/decisions/0012-import-xmcloud.md
"""

import os
from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcloud.runs.run import Run

# In place, so that the spec knows the other portions as well; what finds packages reads the spec.
__path__[:] = extend_path(__path__, __name__)

if "XMCLOUD_ARGUMENTS" in os.environ:
    from xmcloud.runs.joined import hand_over

    hand_over()


def init(title: str = "", project: str = "", *, output: bool = True) -> "Run":
    """Records this process as an experiment, or joins the job whose process it is.

    `output` says whether what the script prints is recorded too. Returns at once; what can go
    wrong is said on stderr, and the script goes on.
    """
    from xmcloud.runs.starting import start

    return start(title, project, output)
