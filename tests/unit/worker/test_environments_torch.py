"""Which build of PyTorch uv is asked for."""

import pytest

from xmcloud.worker.environments.torch import backend, of_machine

INDEX = "https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("torch\n", "machine"),
        ("transformers[torch]\n", "machine"),
        ("torch==2.9.0\ntorchvision\n", "machine"),
        ("--extra-index-url https://example.com/simple\ntorch\n", "machine"),
        ("torch==2.9.0+cpu\n", "cpu"),
        ("torch == 2.6.0+cu124 ; sys_platform == 'linux'\ntorchvision==0.21+cu124\n", "cu124"),
        ("something==1.0+cpu\ntorch\n", "machine"),
        (f"--index-url {INDEX}\ntorch\n", None),
        (f"--index-url={INDEX}\ntorch\n", None),
        ("-i https://example.com/simple\ntorch\n", None),
        (f"--extra-index-url {INDEX}\ntorch==2.9.0+cu126\n", None),
        ("-f https://download.pytorch.org/whl/torch_stable.html\ntorch\n", None),
        ("--no-index\n--find-links wheels\ntorch\n", None),
        ("torch @ https://example.com/torch-2.9.0-cp312-cp312-linux_x86_64.whl\n", None),
        ("torch==2.9.0+ours\n", "machine"),
        ("torch==2.9.0+cpu\ntorchvision==0.24+cu128\n", None),
    ],
)
def test_the_requirements_say_or_the_machine(text: str, option: str | None) -> None:
    assert backend(text, "machine") == (("--torch-backend", option) if option else ())


def test_the_machine_says_by_its_driver() -> None:
    assert of_machine("12.4", {}) == "auto"
    assert of_machine("", {}) == "cpu"


@pytest.mark.parametrize("name", ["UV_TORCH_BACKEND", "UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_a_machine_with_an_index_of_its_own_is_left_alone(name: str) -> None:
    for text in ("torch\n", "torch==2.9.0+cu128\n"):
        assert backend(text, of_machine("12.4", {name: "x"})) == ()
