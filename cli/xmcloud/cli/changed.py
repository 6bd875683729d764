"""What a copy has that its original does not have, in a few lines."""

from collections import Counter
from collections.abc import Iterator, Sequence

from xmcloud.cli.comparisons import shown
from xmcloud.cli.messages import say
from xmcloud.core.models import Job
from xmcloud.core.runs import for_anyone
from xmcloud.core.specs import GitSource
from xmcloud.xm_cloud.comparing.differences import Change, Difference
from xmcloud.xm_cloud.comparing.facts import DIFF
from xmcloud.xm_cloud.comparing.jobs import definitions

_LINES = 20


def show_changes(originals: Sequence[Job], copies: Sequence[Job]) -> None:
    """On stderr."""
    by_id = {job.id: job for job in originals}
    pairs = [(by_id[job.cloned_from], job) for job in copies if job.cloned_from in by_id]
    lines = list(_lines(pairs))
    for line in lines[:_LINES]:
        say(line)
    if len(lines) > _LINES:
        say(f"and {len(lines) - _LINES} more changes")
    for line in dict.fromkeys(left for pair in pairs if (left := _left_out(*pair))):
        say(line)


def _lines(pairs: Sequence[tuple[Job, Job]]) -> Iterator[str]:
    """Each change once, with how many jobs have it unless all do."""
    counts = Counter(
        _line(each)
        for original, copy in pairs
        for each in definitions(for_anyone(original.spec), copy.spec)
        if each.change is not Change.EQUAL and each.name != DIFF
    )
    for line, count in counts.items():
        yield line if count == len(pairs) else f"{line} (in {count} of {len(pairs)} jobs)"


def _line(each: Difference) -> str:
    a, b = shown(each)
    if each.change is Change.ADDED:
        return f"{each.section}: {each.name} is new: {b}"
    if each.change is Change.REMOVED:
        return f"{each.section}: {each.name} is gone: {a}"
    return f"{each.section}: {each.name}: {a} -> {b}"


def _left_out(original: Job, copy: Job) -> str:
    before, after = original.spec.executable, copy.spec.executable
    if not isinstance(before, GitSource) or not isinstance(after, GitSource):
        return ""
    kinds = [
        *(["uncommitted changes"] if before.diff != after.diff else []),
        *(["unpushed commits"] if before.bundle != after.bundle else []),
    ]
    return (
        f"Left out, at {after.commit[:12]}: {' and '.join(kinds)} of the original" if kinds else ""
    )
