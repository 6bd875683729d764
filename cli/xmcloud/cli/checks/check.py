"""What was looked at, and what came of it."""

from enum import StrEnum
from typing import Self

from xmcloud.core.base import Model
from xmcloud.core.errors import XmcloudError


class Verdict(StrEnum):
    """A warning is about what only some jobs need, or what may be meant so."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Check(Model):
    """One thing that was looked at; the remedy is a command wherever there is one."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.detail.rstrip('.')}. {self.remedy}" if self.remedy else self.detail

    @classmethod
    def ok(cls, name: str, detail: str) -> Self:
        return cls(name=name, verdict=Verdict.OK, detail=detail)

    @classmethod
    def warning(cls, name: str, detail: str, remedy: str) -> Self:
        return cls(name=name, verdict=Verdict.WARNING, detail=detail, remedy=remedy)

    @classmethod
    def failed(cls, name: str, detail: str, remedy: str) -> Self:
        return cls(name=name, verdict=Verdict.FAILED, detail=detail, remedy=remedy)

    @classmethod
    def refused(cls, name: str, error: XmcloudError) -> Self:
        return cls.failed(name, error.detail, error.remedy)
