"""docs/networks.md is what lawscope finds in the classifiers of transformers."""

import pytest
from tests.capture import families

transformers = pytest.importorskip("transformers")


def test_the_page_is_of_this_version():
    assert f"transformers {transformers.__version__}:" in families.PAGE.read_text()


@pytest.mark.parametrize("modality", families.MODALITIES)
def test_the_page_is_current(modality):
    rows = families.describe_all(modality)
    assert families.write_table(modality, rows) in families.PAGE.read_text()
