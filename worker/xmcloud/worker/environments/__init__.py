"""Python environments: what to install, how, and the folders that jobs share."""

from xmcloud.worker.environments.finding import find
from xmcloud.worker.environments.shared import Environment, Environments
from xmcloud.worker.environments.wanted import Found, Listed, repositories

__all__ = ["Environment", "Environments", "Found", "Listed", "find", "repositories"]
