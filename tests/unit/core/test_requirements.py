import pytest
from pydantic import TypeAdapter, ValidationError

from xmcloud.core.requirements import Requirement, package_of, with_packages

REQUIREMENT: TypeAdapter[str] = TypeAdapter(Requirement)


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("numpy", "numpy"),
        ("Jax_Lib.X == 1.0", "jax-lib-x"),
        ("torch[cuda]>=2,<3 ; python_version < '3.12'", "torch"),
        ("mine @ git+https://example.com/mine@main", "mine"),
        ("six==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11", "six"),
        ("idna==3.1  # for requests", "idna"),
        ("name (>=1.0, !=1.5)", "name"),
        ("# numpy", None),
        ("", None),
        ("-r other.txt", None),
        ("--index-url https://example.com", None),
        ("./numpy", None),
        ("git+https://example.com/numpy", None),
        ("numpy=2", None),
    ],
)
def test_the_package_that_a_line_names(line: str, package: str | None) -> None:
    assert package_of(line) == package


@pytest.mark.parametrize("line", ["numpy=2", "./pkg", "", "a\nb", "x @ https://u:p@host/x"])
def test_what_is_not_one_package_is_no_requirement(line: str) -> None:
    with pytest.raises(ValidationError):
        REQUIREMENT.validate_python(line)


def test_packages_take_the_place_of_those_of_the_same_name() -> None:
    listed = (
        "# ours\nNumpy==1 \\\n  --hash=sha256:00\nnumpy==1.1; sys_platform == 'x'\n./pkg\nscipy"
    )
    changed = with_packages(listed, ["numpy==2", "jax"])
    assert changed == "# ours\nnumpy==2\n./pkg\nscipy\njax\n"
    assert with_packages("", ["jax"]) == "jax\n"
