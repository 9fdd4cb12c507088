"""Studies register by existing; whoever asks for what is not there is offered what is near."""

import os
import subprocess
import sys

import pytest

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import registry


def test_modules_of_a_family_are_studies_and_dashes_are_underscores(toys):
    names = registry.names()
    assert {"toy/quick", "toy/two-words", "toy/far-away"} <= set(names)
    assert "toy" in registry.families()
    assert registry.find("toy/two-words").title == "Shares networks"


def test_choose(toys):
    family = registry.choose("toy")
    assert family == [name for name in registry.names() if name.startswith("toy/")]
    assert registry.choose("toy/quick") == ["toy/quick"]
    assert registry.choose("all") == registry.names()


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("toy/quik", "did you mean toy/quick"),
        ("quick", "did you mean toy/quick"),
        ("toys", "did you mean toy?"),
        ("zebra", "'lawscope study list' shows them all"),
    ],
)
def test_unknown_names_are_offered_the_nearest(toys, asked, offered):
    with pytest.raises(LawscopeError, match=offered):
        registry.choose(asked)


def test_unknown_preset_lists_them():
    with pytest.raises(LawscopeError, match="choose smoke, cpu, paper"):
        registry.check_preset("huge")


def test_package_that_cannot_be_imported_is_a_sentence(monkeypatch):
    monkeypatch.setenv("LAWSCOPE_STUDIES", "no_such_package")
    with pytest.raises(LawscopeError, match="LAWSCOPE_STUDIES names no_such_package"):
        registry.names()


def test_module_without_a_study_is_a_sentence(toys, monkeypatch):
    monkeypatch.setattr("toy_studies.toy.quick.STUDY", None)
    with pytest.raises(LawscopeError, match=r"STUDY in toy_studies\.toy\.quick is not a Study"):
        registry.find("toy/quick")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A package of somebody's own with one sound study; gives its family's folder."""
    package = tmp_path / "own_studies"
    (package / "mine").mkdir(parents=True)
    for folder in (package, package / "mine"):
        (folder / "__init__.py").write_text("")
    sound = "from lawscope.studies.peeled.balanced import STUDY\n"
    (package / "mine" / "sound.py").write_text(sound)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LAWSCOPE_STUDIES", "own_studies")
    yield package / "mine"
    registry._modules.cache_clear()
    for name in [name for name in sys.modules if name.startswith("own_studies")]:
        del sys.modules[name]


@pytest.mark.parametrize("text", ["import no_such_package", "1 / 0", "def", "STUDY = 3"])
def test_a_study_file_at_fault_is_named_and_costs_no_other_study(own, text):
    (own / "faulty.py").write_text(text)
    with pytest.warns(LawscopeWarning, match=r"mine.faulty.*The study mine/faulty is left out"):
        studies = registry.load_all(registry.names())
    assert set(studies) == set(registry.names()) - {"mine/faulty"}
    with pytest.warns(LawscopeWarning, match="mine/faulty"):
        assert registry.choose("mine") == ["mine/sound"]
    with pytest.raises(LawscopeError, match=r"mine.faulty"):
        registry.find("mine/faulty")
    (own / "sound.py").unlink()
    registry._modules.cache_clear()
    with (
        pytest.warns(LawscopeWarning, match="mine/faulty"),
        pytest.raises(LawscopeError, match="None of the studies of mine can be loaded"),
    ):
        registry.choose("mine")


def test_a_family_at_fault_is_named_and_costs_no_other_family(own):
    (own / "__init__.py").write_text("import no_such_package")
    with pytest.warns(LawscopeWarning, match=r"mine/__init__\.py.*its family is left out"):
        families = registry.families()
    assert "mine" not in families
    assert "separation" in families


def test_list_shows_the_others_beside_a_file_at_fault(call_lawscope, own):
    (own / "faulty.py").write_text("import no_such_package")
    with pytest.warns(LawscopeWarning, match=r"faulty\.py cannot be imported \(ModuleNotFound"):
        code, out, _ = call_lawscope("study", "list")
    assert code == 0
    assert "mine/sound" in out


def test_the_catalogue_waits_for_no_heavy_package():
    code = (
        "import sys; from lawscope.studies.registry import find, names\n"
        "for name in names(): find(name)\n"
        "import lawscope.studies.display, lawscope.cli.study\n"
        "print(*({'torch', 'matplotlib', 'pandas', 'numpy', 'scipy', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_list_answers_at_once(command):
    seconds = []
    for _ in range(3):  # processor time: the machine may be busy
        begun = os.times()
        process = command("list")
        out, err = process.communicate()
        ended = os.times()
        user, system = ended.children_user, ended.children_system
        seconds.append(user + system - begun.children_user - begun.children_system)
        assert process.returncode == 0, err
        if seconds[-1] < 1.5:
            break
    assert "toy/quick" in out
    assert "600" not in out
    assert "10 h" in out
    assert min(seconds) < 1.5
