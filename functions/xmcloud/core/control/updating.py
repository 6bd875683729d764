"""Changing one document that others may change too."""

from collections.abc import Callable
from typing import TypeVar

from xmcloud.core.base import Model
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.documents import Collection
from xmcloud.core.errors import Contended
from xmcloud.core.ports import PreconditionFailed

M = TypeVar("M", bound=Model)


async def update(
    plane: ControlPlane, collection: Collection[M], key: str, decide: Callable[[M | None], M]
) -> M:
    """What `decide` makes of the document, None of one that is not there; kept if it differs.

    Again on the newest state when somebody was faster. Raises whatever `decide` raises, and
    `Contended`.
    """
    for attempt in range(TRIES):
        (stored,) = await collection.get_many(plane.store, [key])
        changed = decide(stored.item if stored else None)
        if stored is not None and changed == stored.item:
            return changed
        write = collection.replace(stored, changed) if stored else collection.create(changed)
        try:
            await plane.store.commit([write])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        return changed
    raise Contended(f"{collection.model.__name__} {key}")


def there(item: M | None, missing: Exception) -> M:
    """The document, for a change of one that has to be there. Raises `missing`."""
    if item is None:
        raise missing
    return item
