"""A counter in a store, for those who change it at once."""

from xmcloud.core.ports import PreconditionFailed, Store, Write


async def add_one(store: Store, id: str) -> None:
    """To the job of that id; again when somebody was faster."""
    while True:
        (document,) = await store.get("jobs", [id])
        assert document is not None
        count = document.data["n"]
        assert isinstance(count, int)
        try:
            await store.commit([Write.replace("jobs", document, {"n": count + 1})])
        except PreconditionFailed:
            continue
        return
