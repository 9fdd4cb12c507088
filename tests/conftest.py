import os
import signal
import sys

import pytest

# Two pytest workers share two cores: before torch and numpy are imported, here and in processes
# that tests begin.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")


@pytest.fixture
def heeds_ctrl_c():
    """This process hears ctrl-C, which one that was begun in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def call_lawscope(monkeypatch, capsys):
    """Run ``lawscope`` in this process; gives exit code, stdout and stderr."""
    from lawscope.cli.app import run

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["lawscope", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        code = 0
        try:
            run()
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def language_models(tmp_path_factory):
    """Folders of tiny language models by name, and texts."""
    from tests.cli import language_folders as folders

    place = tmp_path_factory.mktemp("models")
    folders.gpt2_folder(place / "gpt2")
    folders.gpt2_folder(place / "bos", bos=True)
    folders.bert_folder(place / "bert")
    folders.t5_folder(place / "t5")
    (place / "text.txt").write_text(folders.text(3000))
    (place / "other.txt").write_text(folders.text(2000, seed=1))
    (place / "own.py").write_text(folders.OWN)
    return place
