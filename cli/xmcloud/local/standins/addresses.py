"""Where the stand-ins listen, and what the control plane has to know of them."""

from typing import NamedTuple

from xmcloud.local.processes import LOOPBACK

PROJECT = BUCKET = "xmcloud-local"
LOCATION = "us-central1"
SERVICE_ACCOUNT = f"jobs@{PROJECT}.iam.gserviceaccount.com"


class StandInPorts(NamedTuple):
    """On loopback."""

    vertex: int
    build: int
    faults: int

    def environment(self) -> dict[str, str]:
        """The variables that turn a control plane to them."""
        return {
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "XMCLOUD_BUCKET": BUCKET,
            "XMCLOUD_VERTEX_LOCATIONS": LOCATION,
            "XMCLOUD_VERTEX_SERVICE_ACCOUNT": SERVICE_ACCOUNT,
            "XMCLOUD_VERTEX_ENDPOINT": f"{LOOPBACK}:{self.vertex}",
            "XMCLOUD_VERTEX_PER_MINUTE": "6000",
            "XMCLOUD_BUILD_ENDPOINT": f"{LOOPBACK}:{self.build}",
        }
