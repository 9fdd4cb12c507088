"""Freed memory stays with the process while it is of use."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, torch
from lawscope.capture.kept_memory import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [torch.ones(20 * 2**18) for _ in range(6)]  # 20 MB each
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
with kept_memory():
    faults()
    print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a matter of glibc")
@pytest.mark.parametrize("variables", [{}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}])
def test_blocks_are_not_faulted_in_again_inside(variables):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    every_time = 10 * 6 * 20 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    if variables:
        assert int(done.stdout) > every_time / 2  # whoever set them knows why
    else:
        assert int(done.stdout) < every_time / 20
