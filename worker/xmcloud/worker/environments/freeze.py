"""What an environment has in the end."""

import json
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from xmcloud.worker.environments.lines import package


def freeze(site: Path) -> bytes:
    """The installed packages as lines of a requirements.txt, sorted, without credentials."""
    return "".join(f"{line}\n" for line in sorted(_lines(site))).encode()


def _lines(site: Path) -> Iterator[str]:
    for distribution in distributions(path=[str(site)]):
        name = package(distribution.name)
        origin = _origin(distribution)
        yield f"{name} @ {origin}" if origin else f"{name}=={distribution.version}"


def _origin(distribution: Distribution) -> str:
    """The URL that it was asked for by; '' when it is from an index, or a file of this machine."""
    text = distribution.read_text("direct_url.json")
    facts = json.loads(text) if text else {}
    url = _bare(facts.get("url", ""))
    folder = f"#subdirectory={facts['subdirectory']}" if "subdirectory" in facts else ""
    if revision := facts.get("vcs_info"):
        return f"{revision['vcs']}+{url}@{revision['commit_id']}{folder}"
    return "" if url.startswith("file:") else f"{url}{folder}"


def _bare(url: str) -> str:
    """Without the user and the password, but for the user of ssh alone."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    kept = f"{user}@" if parts.scheme == "ssh" and user and ":" not in user else ""
    return urlunsplit(parts._replace(netloc=f"{kept}{host}"))
