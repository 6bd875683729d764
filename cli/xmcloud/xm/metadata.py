"""What people call an experiment or a unit and say about it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


class ContextAnnotations(ABC):
    """The parts that people change; every change is sent at once."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @abstractmethod
    def set_title(self, title: str) -> None: ...

    @property
    @abstractmethod
    def tags(self) -> frozenset[str]: ...

    @abstractmethod
    def add_tags(self, *tags: str) -> None: ...

    @abstractmethod
    def remove_tags(self, *tags: str) -> None: ...

    @property
    @abstractmethod
    def notes(self) -> str: ...

    @abstractmethod
    def set_notes(self, notes: str) -> None: ...


@dataclass(frozen=True)
class MetadataContext:
    creator: str
    annotations: ContextAnnotations
