"""The one client of this process."""

import atexit
import threading

from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.places import Address, address

_clients: dict[Address, Client] = {}
_lock = threading.Lock()


def shared_client() -> Client:
    """The client of the control plane that the environment names now."""
    place = address()
    with _lock:
        if place not in _clients:
            _clients[place] = Client(place.url, place.token)
        return _clients[place]


@atexit.register
def close_clients() -> None:
    with _lock:
        while _clients:
            _clients.popitem()[1].close()
