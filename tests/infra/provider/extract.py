"""Takes the schema of what infra/terraform uses over from a wheel of prebuilt constructs.

    pip download --no-deps cdktn-provider-google==19.10.0            # the provider's 7.41.0
    pip download --no-deps cdktf-cdktf-provider-archive==11.0.1      # 2.7.1
    python -m tests.infra.provider.extract *.whl

`schemas/random.json` is written by hand: such wheels hold no ephemeral resources.
"""

import base64
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from tests.infra.provider.constructs import Construct, Json

SCHEMAS = Path(__file__).parents[1] / "schemas"
TERRAFORM = Path(__file__).parents[3] / "infra" / "terraform"
_MAP = "sourceMappingURL=data:application/json;base64,"


def main(wheels: list[str]) -> None:
    for wheel in wheels:
        document = extracted(Path(wheel), used())
        (address,) = document["provider_schemas"]
        text = json.dumps(document, indent=0, separators=(",", ":"), sort_keys=True)
        (SCHEMAS / f"{address.rpartition('/')[2]}.json").write_text(text, "utf-8")


def used() -> set[str]:
    """The types of resources and data sources in the configuration."""
    texts = [path.read_text("utf-8") for path in TERRAFORM.rglob("*.tf")]
    return {
        kind
        for text in texts
        for kind in re.findall(r'^(?:resource|data) "(\w+)"', text, re.MULTILINE)
    }


def extracted(wheel: Path, only: set[str]) -> Json:
    """As `terraform providers schema -json` tells it, for the types in `only`."""
    schemas: dict[str, Json] = {"TerraformResource": {}, "TerraformDataSource": {}}
    about, provider = _about(wheel), {}
    for text in _modules(wheel):
        construct = Construct(text)
        for name, base, kind in construct.roots:
            if base != "TerraformProvider" and kind not in only:
                continue
            schema = {"version": 0, "block": construct.block(name, f"{name}Config")}
            if base == "TerraformProvider":
                schema["block"]["attributes"].pop("alias", None)  # type: ignore[index]
                provider = schema
            else:
                schemas[base][kind] = schema
    return {
        "format_version": "1.0",
        "version": about["version"],
        "provider_schemas": {
            _without_host(about["name"]): {
                "provider": provider,
                "resource_schemas": schemas["TerraformResource"],
                "data_source_schemas": schemas["TerraformDataSource"],
            }
        },
    }


def _without_host(address: str) -> str:
    """`hashicorp/google`, as configurations name it."""
    return "/".join(address.split("/")[-2:])


def _files(wheel: Path) -> Iterator[tuple[str, str]]:
    archive = ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(archive.read(name))) as tar:
        for member in tar:
            if re.fullmatch(r"package/(package\.json|lib/[\w-]+/index\.js)", member.name):
                file = tar.extractfile(member)
                assert file is not None
                yield member.name, file.read().decode()


def _about(wheel: Path) -> dict[str, str]:
    package = json.loads(next(text for name, text in _files(wheel) if name.endswith(".json")))
    about: dict[str, str] = (package.get("cdktf") or package["cdktn"])["provider"]
    return about


def _modules(wheel: Path) -> Iterator[str]:
    """The TypeScript, which each module carries in its source map."""
    for name, text in _files(wheel):
        _, found, encoded = text.rpartition(_MAP)
        if found and name.endswith(".js"):
            yield json.loads(base64.b64decode(encoded.strip()))["sourcesContent"][0]


if __name__ == "__main__":
    main(sys.argv[1:])
