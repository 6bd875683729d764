"""Who holds which right on what, as applied; and the tables of docs/terraform.md."""

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.infra.conftest import ROOT, Applied, Resource

DOCUMENT = ROOT / "docs" / "terraform.md"
Right = tuple[str, str]
"""Where it holds, and a permission or a role of Google's."""
_PLACES = {
    "google_artifact_registry_repository_iam_member": ("repository", "repository"),
    "google_cloud_run_v2_service_iam_member": ("function", "name"),
    "google_kms_crypto_key_iam_member": ("key", ""),
    "google_project_iam_member": ("project", ""),
    "google_pubsub_subscription_iam_member": ("subscription", "subscription"),
    "google_pubsub_topic_iam_member": ("topic", "topic"),
    "google_secret_manager_secret_iam_member": ("secret", "secret_id"),
    "google_service_account_iam_member": ("account", "service_account_id"),
    "google_storage_bucket_iam_member": ("bucket", "bucket"),
}


def held(applied: Applied) -> dict[str, set[Right]]:
    """By the short name of who holds them."""
    found: defaultdict[str, set[Right]] = defaultdict(set)
    permissions = {r.values["id"]: r.values for r in applied.all("google_project_iam_custom_role")}
    for grant in applied.resources:
        if not grant.type.endswith("_iam_member"):
            continue
        role = grant.values["role"]
        rights = permissions[role]["permissions"] if role in permissions else [role]
        found[_who(grant.values["member"])].update((_where(grant), right) for right in rights)
    return dict(found)


def _who(member: str) -> str:
    if own := re.search(r"google_service_account\.(xmcloud-[a-z-]+)-(?:email|member)$", member):
        return own[1]
    if agent := re.search(r":service-.*@([a-z-]+)\.iam\.gserviceaccount\.com$", member):
        return agent[1]
    if "writer_identity" in member:
        return "log sink"
    if member.startswith("principalSet:"):
        return "worker identity"
    return re.sub(r"^(user|serviceAccount):", "", member)


def _where(grant: Resource) -> str:
    kind, key = _PLACES[grant.type]
    name = re.sub(r"^google_\w+\.|-name$", "", grant.values[key]) if key else ""
    for each in grant.values.get("condition") or []:
        if secrets := re.search(r'/secrets/(.*)"\)$', each["expression"]):
            return f"secrets {secrets[1]}*"
        if objects := re.search(r'/objects/(.*)"\)$', each["expression"]):
            name += f"/{objects[1]}"
    return f"{kind} {name}".strip()


def rows(heading: str) -> Iterator[list[str]]:
    """Of the table below a heading of the document, without its first two lines."""
    text = DOCUMENT.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def documented() -> dict[str, set[Right]]:
    found = {}
    for who, rights in rows("Who may do what"):
        found[who.strip("`")] = {
            (where.strip(), right.strip(" `"))
            for part in rights.split(";")
            for where, _, names in [part.partition(":")]
            for right in names.split(",")
        }
    return found


def needed() -> dict[tuple[str, str], tuple[set[str], set[str]]]:
    """By port and method: what it calls, and the permissions that this takes."""
    found = {}
    for method, calls, permissions in rows("What the code calls"):
        port, _, name = method.strip("`").partition(".")
        words = [{each.strip(" `") for each in cell.split(",")} for cell in (calls, permissions)]
        found[port, name] = (words[0], words[1])
    return found


def rendered(applied: Applied) -> Iterator[str]:
    """The rows of the document as they ought to be."""
    for who, rights in sorted(held(applied).items()):
        places: defaultdict[str, list[str]] = defaultdict(list)
        for where, right in sorted(rights):
            places[where].append(f"`{right}`")
        cell = "; ".join(f"{where}: {', '.join(names)}" for where, names in places.items())
        yield f"| `{who}` | {cell} |"
