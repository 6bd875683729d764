"""What pip is told in the images of the tests' engine: this machine's settings, reachable there."""

from pathlib import Path

import httpx
import pytest

from tests.support.pip_settings import pip_files, shelf


@pytest.fixture
def links(tmp_path: Path) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    return folder


def lines(files: dict[str, bytes]) -> list[str]:
    return files["etc/pip.conf"].decode().splitlines()


def test_an_index_on_disk_is_served_with_the_files_beside_it(tmp_path: Path, links: Path) -> None:
    page, wheel = tmp_path / "mirror/simple/six/index.html", tmp_path / "mirror/files/six.whl"
    for path, text in ((page, '<a href="../../files/six.whl">six.whl</a>'), (wheel, "a wheel")):
        path.parent.mkdir(parents=True)
        path.write_text(text)

    with shelf(links) as address:
        files = pip_files({"extra-index-url": f"file://{tmp_path}/mirror/simple"}, links, address)
        (told,) = [line for line in lines(files) if line.startswith("extra-index-url = ")]
        url = httpx.URL(told.partition(" = ")[2]).join("six/")
        assert "six.whl" in httpx.get(url).text
        assert httpx.get(url.join("../../files/six.whl")).text == "a wheel"


def test_folders_of_wheels_are_listed(tmp_path: Path, links: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.whl").touch()

    with shelf(links) as address:
        settings = {"find-links": f"{tmp_path}/one {tmp_path}/two"}
        (told,) = [x for x in lines(pip_files(settings, links, address)) if "find-links" in x]
        pages = [httpx.get(url).text for url in told.partition(" = ")[2].split()]

    assert ["one.whl" in pages[0], "two.whl" in pages[1]] == [True, True]


def test_addresses_and_limits_stay_as_they_are(links: Path) -> None:
    settings = {"index-url": "https://mirror.test/simple", "default-timeout": "180"}

    told = lines(pip_files(settings, links, "http://127.0.0.1:1"))

    assert "index-url = https://mirror.test/simple" in told
    assert "default-timeout = 180" in told


def test_files_that_pip_reads_come_along(tmp_path: Path, links: Path) -> None:
    constraints, authorities = tmp_path / "constraints.txt", tmp_path / "ca.pem"
    constraints.write_text("six<2")
    authorities.write_text("certificates")
    settings = {"constraint": str(constraints), "cert": str(authorities)}

    files = pip_files(settings, links, "http://127.0.0.1:1")

    assert files["etc/pip-constraints.txt"] == b"six<2\n"
    assert files["etc/ssl/certs/ca-certificates.crt"] == b"certificates"
    assert "constraint = /etc/pip-constraints.txt" in lines(files)
    assert "cert = /etc/ssl/certs/ca-certificates.crt" in lines(files)


def test_nothing_of_this_machine_that_means_nothing_there_comes_along(links: Path) -> None:
    told = lines(pip_files({"cache-dir": "/home/me/cache"}, links, "http://127.0.0.1:1"))

    assert [line for line in told if "cache" in line] == []
