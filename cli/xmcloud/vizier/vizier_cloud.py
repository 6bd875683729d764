"""Another name of `xmcloud.xm_cloud.vizier`: searches."""

from xmcloud.xm_cloud.vizier import ExistingStudy, NewStudy, StudySpec, VizierExploration

__all__ = ["ExistingStudy", "NewStudy", "StudySpec", "VizierExploration"]
