"""Images for Cloud TPUs."""

__all__ = ["tpuvm_docker_instructions"]

_ARTIFACTS = "https://storage.googleapis.com/cloud-tpu-tpuvm-artifacts"
_DRIVER = f"{_ARTIFACTS}/libtpu/20210525/libtpu.so"
_TENSORFLOW = f"{_ARTIFACTS}/tensorflow/20210525/tf_nightly-2.6.0-cp38-cp38-linux_x86_64.whl"


def tpuvm_docker_instructions() -> list[str]:
    """Installs the driver, and the TensorFlow that was built with it.

    The image needs an x86-64 Python 3.8 with pip, glibc 2.29 or later, and wget.
    """
    return [
        f"RUN wget -nv -O /lib/libtpu.so {_DRIVER} && chmod 755 /lib/libtpu.so",
        f"RUN python3 -m pip install --no-cache-dir {_TENSORFLOW}",
    ]
