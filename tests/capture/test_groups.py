"""Inside a process group ranks are merged, sharded networks are whole, or a sentence refuses."""

import pytest
import torch
import torch.multiprocessing as mp
from tests import cases
from tests.capture import groups

WORLD = 2


@pytest.mark.filterwarnings("ignore::lawscope.errors.LawscopeWarning")
def test_every_rank_has_the_numbers_of_all_samples_or_a_sentence(tmp_path):
    """One test, because starting the processes takes most of its time."""
    mp.spawn(groups.work, (WORLD, str(tmp_path)), nprocs=WORLD)
    expected = groups.measure(groups.network(), (cases.vectors(), cases.labels()))
    for answers in [torch.load(tmp_path / f"{rank}.pt") for rank in range(WORLD)]:
        plain, sharded, parallel = (answers[name] for name in groups.TASKS)
        for found in (plain, sharded):
            for name in ("values", "collapse", "scan"):
                assert found[name] == pytest.approx(expected[name], rel=1e-6)
            # One rank's share is another data set.
            assert found["alone"] != pytest.approx(expected["values"], rel=0.02)
        for other in range(WORLD):
            for name, values in groups.measure_more(groups.share(0, 1)[other:], groups.IDS).items():
                found = plain["without", other][name]
                assert found == pytest.approx(values, rel=1e-6, nan_ok=True), name
        said = plain["sentences"]
        assert said["empty"] == "The loader is empty: it yields no batch with samples."
        assert "Rank 1 has separation.folds=5 and rank 0 4" in said["folds"]
        assert "Rank 1 has next_token.targets=('current',)" in said["targets"]
        assert "network of rank 1 has other parameters" in said["parameters"]
        assert sharded["kept"]
        assert "[2, 1] batches" in sharded["uneven"]
        assert all("0.weight is split over processes" in said for said in parallel["sentences"])
