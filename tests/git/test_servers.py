"""Fetching from servers that ask who it is; with git's real protocols."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.git.authors import commit, head, new_repository
from tests.git.conftest import Machine
from tests.git.servers import PASSWORD, USER, HttpServer, SshServer, remember_password
from xmcloud.core.names import random_id
from xmcloud.worker.environments import Environments, Listed
from xmcloud.worker.git.hosts import GitHost
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
TOKEN = "XMCLOUD_GIT_TOKEN"
PROJECT = """
[project]
name = "secret-library"
version = "1.0"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import os, zipfile
def build_wheel(folder, *_):
    name = "secret_library-1.0-py3-none-any.whl"
    info = "secret_library-1.0.dist-info"
    files = {
        "secret_library.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: secret-library\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
"""


@pytest.fixture
def private(served: Path) -> tuple[str, str]:
    """The path of a repository that needs a password, and its commit."""
    path = f"private/{random_id()}"
    return path, new_repository(served / path, {"train.py": "one\n"})


@pytest.fixture
def with_token(machine: Machine, https: HttpServer, certificate: Path, home: Path) -> Machine:
    """On a machine that would keep every password that git has used."""
    machine.hosts["127.0.0.1"] = GitHost(token=TOKEN, port=https.port)
    machine.variables = {TOKEN: PASSWORD}
    machine.base["GIT_SSL_CAINFO"] = str(certificate)
    (home / ".gitconfig").write_text(f'[credential]\n\thelper = "store --file {home}/kept"\n')
    return machine


def seen(text: str) -> bool:
    return PASSWORD in unquote(text)


def written(folder: Path) -> list[Path]:
    """Files below it that have the password."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if seen(path.read_bytes().decode(errors="replace"))]


async def test_the_machines_own_credential_helper_lets_it_in(
    machine: Machine, home: Path, http: HttpServer, private: tuple[str, str]
) -> None:
    path, first = private
    remember_password(home, http)
    work = await machine.check_out(f"{http.url}/{path}", first)
    assert (work / "train.py").read_text() == "one\n"
    assert (work / ".git" / "config").read_text().count(USER) == 0
    before = len(http.requests())
    await machine.check_out(f"{http.url}/{path}/", first)
    assert len(http.requests()) == before
    assert not any(seen(word) for request in http.requests() for word in request["argv"])


@pytest.mark.parametrize("known", [True, False], ids=["wrong", "none"])
async def test_without_the_right_password_it_says_what_to_do(
    machine: Machine, home: Path, http: HttpServer, private: tuple[str, str], known: bool
) -> None:
    if known:
        remember_password(home, http)
        passwords = home / "passwords"
        passwords.write_text(passwords.read_text().replace("correct", "wrong"))
    with pytest.raises(
        SetupFailed, match=r"from 127\.0\.0\.1: it did not accept .*token"
    ) as failed:
        await machine.check_out(f"{http.url}/{private[0]}", private[1])
    assert "horse" not in f"{failed.value}{machine.log}"


def process(argv: list[str]) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def line_of(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def test_two_workers_at_once_fetch_once(machine: Machine, http: HttpServer, served: Path) -> None:
    first = new_repository(served / "shared", {"a": "a\n"})
    run = [sys.executable, "-m", "tests.git.fetching", str(machine.folder)]
    run += [f"{http.url}/shared", first]
    before = http.fetches()
    with ExitStack() as stack:
        workers = [stack.enter_context(process(run)) for _ in range(2)]
        assert [line_of(worker) for worker in workers] == ["ready\n"] * 2
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        places = [line_of(worker).strip() for worker in workers]
    assert [Path(place, "a").read_text() for place in places] == ["a\n", "a\n"]
    assert http.fetches() == before + 1


@pytest.mark.parametrize(
    "spelling",
    [
        "git@127.0.0.1:{0}",
        "ssh://git@127.0.0.1/{0}",
        "http://127.0.0.1/{0}",
        "https://127.0.0.1/{0}",
        "https://ann@127.0.0.1/{0}",
    ],
)
async def test_with_a_token_every_spelling_is_fetched_over_https(
    with_token: Machine,
    https: HttpServer,
    private: tuple[str, str],
    tmp_path: Path,
    spelling: str,
) -> None:
    path, first = private
    work = await with_token.check_out(spelling.format(path), first)
    assert (work / "train.py").read_text() == "one\n"
    requests = https.requests()
    assert requests[-1]["path"].startswith(f"/{path}/")
    assert not any(seen(word) for request in requests for word in request["argv"])
    assert not written(tmp_path)


async def test_a_token_is_for_the_port_of_the_address_too(
    with_token: Machine, https: HttpServer, private: tuple[str, str]
) -> None:
    with_token.hosts["127.0.0.1"] = GitHost(token=TOKEN)
    work = await with_token.check_out(f"{https.url}/{private[0]}", private[1])
    assert (work / "train.py").read_text() == "one\n"


async def test_a_token_may_be_in_a_file_of_the_workers_user(
    with_token: Machine, private: tuple[str, str], https: HttpServer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{PASSWORD}\n")
    with_token.hosts["127.0.0.1"] = GitHost(token=str(file), port=https.port)
    path, first = private
    file.chmod(0o644)
    with pytest.raises(SetupFailed, match=r"chmod 600.*worker\.json"):
        await with_token.check_out(f"git@127.0.0.1:{path}", first)
    file.chmod(0o600)
    await with_token.check_out(f"git@127.0.0.1:{path}", first)


async def test_a_token_that_is_not_set_is_named(
    with_token: Machine, private: tuple[str, str]
) -> None:
    with_token.variables = {}
    with pytest.raises(SetupFailed, match=f"token of 127.0.0.1: the variable {TOKEN} is not set"):
        await with_token.check_out(f"git@127.0.0.1:{private[0]}", private[1])


async def test_a_wrong_token_is_not_shown(with_token: Machine, private: tuple[str, str]) -> None:
    with_token.variables = {TOKEN: "wrong-token"}
    with pytest.raises(SetupFailed, match="did not accept the credentials") as failed:
        await with_token.check_out(f"git@127.0.0.1:{private[0]}", private[1])
    assert "wrong-token" not in f"{failed.value}{with_token.log}"


async def test_the_machines_ssh_key_lets_it_in(
    machine: Machine, ssh: SshServer, served: Path
) -> None:
    first = new_repository(served / "by-ssh", {"a": "a\n"})
    machine.base["GIT_SSH_COMMAND"] = client(ssh)
    url = f"ssh://127.0.0.1:{ssh.port}{served}/by-ssh"
    work = await machine.check_out(url, first)
    assert (work / "a").read_text() == "a\n"


async def test_https_spellings_are_fetched_over_ssh_when_the_settings_say_so(
    machine: Machine, ssh: SshServer, served: Path, whoami: str
) -> None:
    first = new_repository(served / "over-ssh", {"a": "a\n"})
    machine.base["GIT_SSH_COMMAND"] = client(ssh)
    machine.hosts["127.0.0.1"] = GitHost(over="ssh", user=whoami, port=ssh.port)
    work = await machine.check_out(f"https://127.0.0.1{served}/over-ssh", first)
    assert (work / "a").read_text() == "a\n"


async def test_an_ssh_key_that_is_not_accepted_says_what_to_do(
    machine: Machine, ssh: SshServer, served: Path, tmp_path: Path
) -> None:
    machine.base["GIT_SSH_COMMAND"] = client(ssh).replace(str(ssh.key), str(tmp_path / "none"))
    with pytest.raises(SetupFailed, match="did not accept the credentials, or there are none"):
        await machine.check_out(f"ssh://127.0.0.1:{ssh.port}{served}/x", "1" * 40)


async def test_an_unknown_host_key_says_what_to_do(
    machine: Machine, ssh: SshServer, served: Path
) -> None:
    machine.base["GIT_SSH_COMMAND"] = client(ssh).replace(str(ssh.known_hosts), "/dev/null")
    with pytest.raises(SetupFailed, match="host key is not known"):
        await machine.check_out(f"ssh://127.0.0.1:{ssh.port}{served}/x", "1" * 40)


async def test_a_host_that_does_not_answer_is_named(machine: Machine) -> None:
    with pytest.raises(SetupFailed, match=r"from 127\.0\.0\.1: it cannot be reached"):
        await machine.check_out("http://127.0.0.1:1/x", "1" * 40)


async def test_a_commit_that_the_server_does_not_give_away_comes_with_its_branch(
    machine: Machine, http: HttpServer, served: Path, home: Path
) -> None:
    first = new_repository(served / "old", {"a": "a\n"})
    commit(served / "old", {"a": "b\n"})
    (home / ".gitconfig").write_text("[protocol]\n\tversion = 0\n")
    work = await machine.check_out(f"{http.url}/old", first)
    assert (work / "a").read_text() == "a\n"


@pytest.mark.parametrize("spelling", ["git+ssh://git@127.0.0.1", "git+https://127.0.0.1"])
async def test_requirements_are_fetched_with_the_same_credentials(
    with_token: Machine, served: Path, https: HttpServer, spelling: str, tmp_path: Path
) -> None:
    path = f"private/{random_id()}"
    new_repository(served / path, {"pyproject.toml": PROJECT, "backend.py": BACKEND})
    requirement = f"secret-library @ {spelling}/{path}@{head(served / path)}"
    with_token.base["UV_CACHE_DIR"] = str(tmp_path / "uv")
    access = with_token.revisions.installer(requirement)
    steps = with_token.steps(tmp_path / "attempt")
    made = await Environments(tmp_path / "environments").environment(
        Listed(requirement), lambda name, argv: steps(name, argv, access)
    )
    assert list(made.path.rglob("secret_library.py"))
    assert made.freeze.startswith(b"secret-library @ git+")
    assert https.requests()[-1]["path"].startswith(f"/{path}/")
    assert not any(seen(word) for request in https.requests() for word in request["argv"])
    assert not written(tmp_path)


def test_other_requirements_see_no_credentials(with_token: Machine) -> None:
    assert with_token.revisions.installer("numpy\n") is None
    elsewhere = with_token.revisions.installer("x @ git+https://example.com/x")
    assert elsewhere is not None
    assert not seen(str(elsewhere.environment))


def client(server: SshServer) -> str:
    options = f"-o UserKnownHostsFile={server.known_hosts} -o IdentitiesOnly=yes"
    return f"ssh -F none -i {server.key} {options}"


@pytest.fixture
def whoami() -> str:
    return subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
