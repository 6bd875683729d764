"""What Cloud Build is asked to do for a build."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from xmcloud.core.builds import Build

LOGS = "build-logs"
_DOCKER = "gcr.io/cloud-builders/docker"
_KANIKO = "gcr.io/kaniko-project/executor:latest"
# What a step leaves in this file becomes its entry in the results.
_STEP_OUTPUT = "/builder/outputs/output"


@dataclass(frozen=True, slots=True)
class BuildRequests:
    """Builds whose archives and logs lie in `bucket`, and images, unless told, in `registry`.

    They run as `service_account`, whole as projects/P/serviceAccounts/EMAIL; '' is the project's
    default one. Cloud Build wants a bucket for the logs of another.
    """

    bucket: str
    registry: str
    service_account: str = ""

    def build(self, build: Build) -> dict[str, Any]:
        """A `cloudbuild_v1.Build`; its first image is the one that was asked for."""
        return {
            "source": {
                "storage_source": {
                    "bucket": self.bucket,
                    "object_": f"content/{build.spec.archive}",
                }
            },
            **(self._with_kaniko(build) if build.spec.kaniko else self._with_docker(build)),
            "timeout": timedelta(seconds=build.spec.timeout_seconds),
            "tags": [build.tag],
            "service_account": self.service_account,
            "logs_bucket": f"gs://{self.bucket}/{LOGS}",
            "options": {"logging": "GCS_ONLY", "log_streaming_option": "STREAM_ON"},
        }

    def _with_docker(self, build: Build) -> dict[str, Any]:
        image, cache = self._image(build), f"{self._repository(build)}:cache"
        args = ["build", "--tag", image, "--tag", cache, "--cache-from", cache]
        args += ["--build-arg", "BUILDKIT_INLINE_CACHE=1", "--file", build.spec.dockerfile, "."]
        step = {"name": _DOCKER, "args": _literal(args), "env": ["DOCKER_BUILDKIT=1"]}
        return {"steps": [step], "images": [image, cache]}

    def _with_kaniko(self, build: Build) -> dict[str, Any]:
        # It pushes by itself: Cloud Build would not find the image in its engine.
        args = [
            "--context=dir:///workspace",
            f"--dockerfile={build.spec.dockerfile}",
            f"--destination={self._image(build)}",
            "--cache=true",
            f"--cache-repo={self._repository(build)}/cache",
            f"--image-name-with-digest-file={_STEP_OUTPUT}",
        ]
        return {"steps": [{"name": _KANIKO, "args": _literal(args)}]}

    def _image(self, build: Build) -> str:
        return build.spec.push_image_tag or f"{self._repository(build)}:{build.id}"

    def _repository(self, build: Build) -> str:
        return f"{self.registry}/{build.spec.name}"


def _literal(args: list[str]) -> list[str]:
    """Cloud Build would replace what begins with a dollar."""
    return [arg.replace("$", "$$") for arg in args]
