import pytest
from tests.cli import language_folders as folders


@pytest.fixture(scope="session")
def language_models(tmp_path_factory):
    """Folders of tiny language models by name, and texts."""
    place = tmp_path_factory.mktemp("models")
    folders.gpt2_folder(place / "gpt2")
    folders.gpt2_folder(place / "bos", bos=True)
    folders.bert_folder(place / "bert")
    folders.t5_folder(place / "t5")
    (place / "text.txt").write_text(folders.text(3000))
    (place / "other.txt").write_text(folders.text(2000, seed=1))
    (place / "own.py").write_text(folders.OWN)
    return place
