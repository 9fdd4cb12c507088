"""The same PR from several ranks as from one; `gathered` itself is tested over gloo elsewhere."""

import pytest
import torch

import lawscope as ls
from lawscope.laws import next_token_moments, next_token_observer
from lawscope.zoo.language import gpt


def model_and_text():
    torch.manual_seed(0)
    model = gpt(40, 8, 4, 2, 32).double().eval()
    return model, torch.randint(0, 40, (41, 20))


@pytest.mark.parametrize("world", [2, 3])
def test_several_ranks_give_the_value_of_one(world, monkeypatch):
    model, ids = model_and_text()
    ranks = []
    for rank in range(world):
        with ls.NextTokenObserver(model, ids) as observer:
            if rank < 2:  # uneven shards; a third rank has nothing
                observer.update(ids[rank::2], first=rank, stride=2)
        ranks.append(observer)
    states = [[s.state_dict() for s in rank.statistics] for rank in ranks]
    answers = [[state[i] for state in states] for i in range(len(states[0]))]
    answers.append([(r.sequences, r.left_out, r.seconds) for r in ranks])
    for module in (next_token_moments, next_token_observer):
        monkeypatch.setattr(module, "gathered", lambda part: answers.pop(0))
    ranks[-1].all_merge()
    together, alone = ranks[-1].result(), ls.next_token(model, [ids], control=None)
    assert not answers
    for name in ("pr", "pr_cv", "pr_onehot", "pr_adjusted"):
        assert getattr(together, name) == pytest.approx(getattr(alone, name), rel=1e-12)
    assert together.settings["sequences"] == len(ids)
    assert together.n == alone.n


def test_without_a_process_group_it_says_so():
    model, ids = model_and_text()
    with pytest.raises(ls.LawscopeError, match="init_process_group"):
        ls.next_token(model, [ids], control=None, distributed=True)
