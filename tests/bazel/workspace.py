"""What the workspace of the tests holds."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

JAVA_RULES = Path("/usr/share/bazel/rules/java")
HOW = "Bazel: apt-get install bazel-bootstrap bazel-rules-java g++"
STARTED = "offline/started"
"""A pipe, below the workspace, that the slow target writes its process id to."""

BUILD = """
sh_binary(name = "greet", srcs = ["greet.sh"], data = ["word.txt"])
alias(name = "greet_alias", actual = ":greet")
py_binary(name = "double", srcs = ["double.py"], deps = [":lib"], data = ["word.txt"])
py_library(name = "lib", srcs = ["lib.py"])
cc_library(name = "three", srcs = ["three.cc"], linkstatic = 0)
cc_binary(name = "add", srcs = ["add.cc"], deps = [":three"], linkstatic = 0)
genrule(name = "image", srcs = ["word.txt"], outs = ["image.tar"], cmd = "tar -chf $@ $(SRCS)")
genrule(name = "images", outs = ["1.tar", "2.tar"], cmd = "touch $(OUTS)")
genrule(name = "tool", outs = ["tool.sh"], cmd = "printf '#!/bin/sh\\\\necho tool $$1' > $@")
genrule(name = "far", outs = ["far.txt"], cmd = "echo far > $@")
genrule(name = "who", outs = ["who.txt"], cmd = "echo $(WHO) > $@")
genrule(name = "bad", outs = ["bad.txt"], cmd = "echo what went wrong >&2; exit 3")
genrule(name = "slow", outs = ["slow.txt"], cmd = "echo $$$$ > STARTED; exec sleep 600")
filegroup(name = "both", srcs = [":greet", ":double"])
"""

SOURCES = {
    "WORKSPACE": 'workspace(name = "example")\nlocal_repository(name = "other", path = "other")\n',
    ".bazelignore": "offline\nother\n",
    "pkg/BUILD": BUILD,
    "pkg/word.txt": "word\n",
    "pkg/greet.sh": '#!/bin/bash\nread -r word < "$0.runfiles/example/pkg/word.txt"\n'
    'printf "%s %s\\n" "$word" "$1"\n',
    "pkg/lib.py": "def double(number: int) -> int:\n    return 2 * number\n",
    "pkg/double.py": "import os\nimport sys\n\nfrom pkg.lib import double\n\n"
    'with open(os.path.join(os.path.dirname(__file__), "word.txt")) as file:\n'
    "    print(file.read().strip(), double(int(sys.argv[1])))\n",
    "pkg/three.cc": "int three() { return 3; }\n",
    "pkg/add.cc": "#include <cstdio>\n#include <cstdlib>\nint three();\n"
    'int main(int, char** argv) { std::printf("%d\\n", three() + std::atoi(argv[1])); }\n',
    "other/WORKSPACE": "",
    "other/pkg/BUILD": 'sh_binary(name = "greet", srcs = ["greet.sh"])\n',
    "other/pkg/greet.sh": '#!/bin/sh\necho "other $1"\n',
    "offline/rules_cc/WORKSPACE": "",
    "offline/rules_cc/BUILD": "",
    "offline/rules_cc/cc/BUILD": "",
    "offline/rules_cc/cc/defs.bzl": "".join(
        f"cc_{rule} = native.cc_{rule}\n"
        for rule in ("binary", "library", "test", "toolchain", "toolchain_suite")
    ),
    "offline/coverage/WORKSPACE": "",
    "offline/coverage/BUILD": 'package(default_visibility = ["//visibility:public"])\n'
    'filegroup(name = "coverage_report_generator")\nfilegroup(name = "lcov_merger")\n',
}


def require_bazel() -> None:
    """Skips where Bazel is missing, unless services are required."""
    if shutil.which("bazel") is None or not JAVA_RULES.is_dir():
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(HOW, pytrace=False)
        pytest.skip(HOW)


def write_workspace(folder: Path, output: Path) -> None:
    """Sources and a .bazelrc that has every outer repository replaced by what lies here."""
    _write(folder, SOURCES)
    os.mkfifo(folder / STARTED)
    (folder / ".bazelrc").write_text(_settings(folder, output))


def take_offline(workspace: Path, folder: Path) -> None:
    """Has a workspace build without a network; what that takes is kept in the folder."""
    offline = {name: text for name, text in SOURCES.items() if name.startswith("offline/")}
    _write(folder, offline)
    (workspace / ".bazelrc").write_text(_settings(folder, folder / "output"))


def _write(folder: Path, sources: Mapping[str, str]) -> None:
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("STARTED", str(folder / STARTED)))
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)


def _settings(folder: Path, output: Path) -> str:
    replaced = {
        "rules_cc": folder / "offline/rules_cc",
        "rules_java": JAVA_RULES,
        "remote_coverage_tools": folder / "offline/coverage",
    }
    overrides = (f"build --override_repository={name}={at}\n" for name, at in replaced.items())
    return (
        f"startup --output_user_root={output} --max_idle_secs=60\n"
        f"build --spawn_strategy=local\n{''.join(overrides)}"
    )
