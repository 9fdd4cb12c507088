"""Lazy packages stand for the packages themselves."""

import pickle
import subprocess
import sys

import numpy
import pytest
import torch

from lawscope.lazy import nn, np
from lawscope.lazy import torch as lazy_torch


def test_names_are_those_of_the_package():
    assert np.float64 is numpy.float64
    assert lazy_torch.Tensor is torch.Tensor
    assert nn.Linear is torch.nn.Linear


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = np.no_such_name


def test_a_pickle_holds_the_package():
    # Ray sends functions with what they name.
    assert pickle.loads(pickle.dumps(np)) is numpy


def test_importing_loads_nothing():
    code = "import sys, lawscope.lazy; print({'numpy', 'pandas', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
