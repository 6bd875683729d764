"""The states of a job by the names that tests call them."""

from xmcloud.core.models import JobState

DRAFT, BUILDING, QUEUED, STARTING, RUNNING, COMPLETED, FAILED, STOPPED = JobState
