"""Addresses of repositories, and that none of them carries a secret."""

import pytest
from pydantic import ValidationError

from xmcloud.core.repositories import Repository
from xmcloud.core.specs import GitSource

COMMIT = "0" * 40


def source(**fields: object) -> GitSource:
    values = {"repository": "https://host/x", "commit": COMMIT, "entrypoint": ("x",), **fields}
    return GitSource.model_validate(values)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/org/repo",
        "https://GitHub.com/org/repo.git",
        "https://github.com:443/org/repo/",
        "http://github.com/org/repo",
        "https://ann@github.com/org/repo",
        "git@github.com:org/repo.git",
        "github.com:org/repo",
        "ssh://git@github.com/org/repo",
        "ssh://github.com:22/org/repo.git",
    ],
)
def test_spellings_of_one_repository_are_one(url: str) -> None:
    assert Repository.parse(url).key == "github.com/org/repo"
    assert source(repository=url).repository == url


def test_others_are_others() -> None:
    urls = ["https://host:8443/a", "https://host/a", "https://host/b", "file:///host/a"]
    assert len({Repository.parse(url).key for url in urls}) == len(urls)


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:s3cret@host/x",
        "https://ann:s3@cret@host/x",
        "https://:s3cret@host/x",
        "https://ghp_s3cret@host/x",
        "https://glpat-s3cret@host/x",
        f"https://{'s3cret' * 7}@host/x",
        "https://s3cret:x-oauth-basic@host/x",
        "ssh://git:s3cret@host/x",
        "git:s3cret@host:x",
        "https://host/x?private_token=s3cret",
    ],
)
def test_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"leave it out: workers have credentials") as refused:
        Repository.parse(url)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ValidationError, match="repository"):
        source(repository=url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host",
        "/some/path",
        "../path",
        "ext::sh -c x",
        "ext::https://host/x",
        "git://host/x",
        "ftp://host/x",
        "https://host",
        "https://-host/x",
        "-host:x",
        "host:-x",
        "host::x",
        "file://host/x",
        "https://host/x\n",
        "https://a b@host/x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="repository's address"):
        Repository.parse(url)


@pytest.mark.parametrize("commit", ["main", "0" * 39, "G" * 40, f"{COMMIT}\n", "-" * 40])
def test_a_commit_is_named_in_full(commit: str) -> None:
    with pytest.raises(ValidationError, match="commit"):
        source(commit=commit)


def test_requirements_hold_no_password() -> None:
    for line in ("x @ git+https://ann:s3cret@host/x", "--index-url https://a:s3cret@host/simple"):
        with pytest.raises(ValidationError, match="must hold no password"):
            source(requirements=f"numpy\n{line}\n")
    fine = "x @ git+ssh://git@host/x\n--index-url https://ann:${PASSWORD}@host/simple\n"
    assert source(requirements=fine).requirements == fine


@pytest.mark.parametrize(
    ("outer", "inner", "meant"),
    [
        ("https://host/org/repo", "../other", "https://host/org/other"),
        ("https://host/org/repo.git/", "../../else/other", "https://host/else/other"),
        ("git@host:org/repo", "../other", "git@host:org/other"),
        ("git@host:repo", "../other", "git@host:other"),
        ("https://host/org/repo", "./part", "https://host/org/repo/part"),
        ("https://host/org/repo", "git@else:x", "git@else:x"),
    ],
)
def test_a_submodules_address_may_be_relative(outer: str, inner: str, meant: str) -> None:
    assert Repository.parse(outer).relative(inner) == meant
