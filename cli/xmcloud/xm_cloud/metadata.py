"""What people say about an experiment."""

from xmcloud import xm
from xmcloud.core.models import Experiment
from xmcloud.core.protocol import EditExperiment
from xmcloud.xm_cloud.client import Client


class Annotations(xm.ContextAnnotations):
    """Title, tags and notes; every change is sent at once."""

    def __init__(self, client: Client, experiment: Experiment) -> None:
        self._client = client
        self._experiment = experiment

    @property
    def title(self) -> str:
        return self._experiment.title

    def set_title(self, title: str) -> None:
        self._edit(EditExperiment(title=title))

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(self._experiment.tags)

    def add_tags(self, *tags: str) -> None:
        self._edit(EditExperiment(tags=tuple(dict.fromkeys((*self._experiment.tags, *tags)))))

    def remove_tags(self, *tags: str) -> None:
        left = tuple(tag for tag in self._experiment.tags if tag not in tags)
        self._edit(EditExperiment(tags=left))

    @property
    def notes(self) -> str:
        return self._experiment.notes

    def set_notes(self, notes: str) -> None:
        self._edit(EditExperiment(notes=notes))

    def _edit(self, edit: EditExperiment) -> None:
        self._experiment = self._client.edit_experiment(self._experiment.id, edit)
