"""What every model is made of: checked and frozen fields, instants, JSON values."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    JsonValue,
    PlainSerializer,
)

from xmcloud.core.names import unicode


def sortable(time: datetime) -> str:
    """Text that sorts as the instants do; `time` is in UTC."""
    return f"{time.isoformat(timespec='microseconds')[:26]}Z"


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 of UTC") from None


Time = Annotated[
    AwareDatetime,
    AfterValidator(_utc),
    PlainSerializer(sortable, when_used="json"),
]
"""An instant in UTC; its text sorts as the instants do."""


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def evolve(self, **changes: Any) -> Self:
        """A checked copy with some fields changed."""
        return type(self).model_validate({**self.__dict__, **changes})

    @classmethod
    def received(cls, text: str | bytes) -> Self:
        """What another version may have written: fields that this one does not know are left out.

        Raises `pydantic.ValidationError`.
        """
        return cls.model_validate_json(text, extra="ignore")


NESTING_LIMIT = 100
"""Arrays and objects inside one another: JSON parsers give up at about 200, ours included."""


def _parts(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _readable(value: JsonValue) -> JsonValue:
    level = [value]
    for _ in range(NESTING_LIMIT + 1):
        for item in level:
            if isinstance(item, str):
                unicode(item)
        level = [part for item in level for part in _parts(item)]
        if not level:
            return value
    raise ValueError(f"must not be nested deeper than {NESTING_LIMIT} levels")


Json = Annotated[JsonValue, AfterValidator(_readable)]
"""Any JSON value that can be written and read again; its texts are as those of a process."""
