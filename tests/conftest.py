import sys

import pytest
import torch

# Two pytest workers share two cores.
torch.set_num_threads(1)


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
