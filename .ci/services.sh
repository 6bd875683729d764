#!/usr/bin/env bash
# Installs the programs that the tests start services with: Debian 12, as root. Nothing to do: instant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  bazel-bootstrap bazel-rules-java docker-registry docker.io g++ git git-lfs iproute2 mmdebstrap podman
  openssh-client openssh-server openssl systemd
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get --quiet --option DPkg::Lock::Timeout=300 --option Acquire::Retries=3)
  "${apt[@]}" update
  "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
fi

# Made here beside the setup and not in the first test that needs it.
python3 -m tests.support.base_image
