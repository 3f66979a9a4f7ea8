"""GPUs of this machine, asked of a driver that says what the test wants."""

from __future__ import annotations

import pytest

from fagen.device.local import known_local_target, local_targets


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts a `nvidia-smi` alone on PATH that runs the given shell lines."""

    def install(script: str) -> None:
        command = tmp_path / "nvidia-smi"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return install


def test_no_driver(driver):
    assert local_targets() == [] and known_local_target() is None


def test_several_gpus(driver):
    driver("echo 9.0; echo 8.9")
    assert local_targets() == ["sm_90", "sm_89"] and known_local_target() == "sm_90"


def test_a_gpu_without_facts(driver):
    driver("echo 7.5; echo 9.0")
    assert local_targets() == ["sm_75", "sm_90"] and known_local_target() is None


@pytest.mark.parametrize("script", ["echo 9.0; exit 9", "echo", "exit 1"])
def test_a_driver_without_gpus(driver, script):
    driver(script)
    assert local_targets() == [] and known_local_target() is None
