"""Copies of the fixtures, which the Rust test has unpacked into $DISKFS_TEST_IMAGES."""

import os
import shutil
from pathlib import Path

import pytest

IMAGES = Path(os.environ["DISKFS_TEST_IMAGES"])


@pytest.fixture
def image(tmp_path):
    """Returns a function that copies an image to a place where a test may change it."""

    def copy(name):
        target = tmp_path / name
        shutil.copy(IMAGES / name, target)
        return target

    return copy


@pytest.fixture
def demo():
    """The path of the image with an operating system, which is only read."""
    return IMAGES / "demo.qcow2"
