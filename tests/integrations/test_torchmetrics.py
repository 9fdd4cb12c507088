import pickle

import pytest
import torch
from tests import cases, oracles

from lawscope.integrations.torchmetrics import Fuzziness


def test_batches_give_the_definition_and_forward_the_batch_value():
    x, y = cases.vectors(), cases.labels()
    metric = Fuzziness()
    for rows in torch.arange(len(y)).split(20):
        value = metric(x[rows], y[rows])
        assert value.item() == pytest.approx(oracles.fuzziness(x[rows], y[rows]), rel=1e-9)
    assert metric.compute().item() == pytest.approx(oracles.fuzziness(x, y), rel=1e-9)
    metric.reset()
    metric.update(x, y)
    assert metric.compute().item() == pytest.approx(oracles.fuzziness(x, y), rel=1e-9)
    assert pickle.loads(pickle.dumps(metric)).compute() == metric.compute()


def test_merge_state_and_gathered_ranks():
    x, y = cases.vectors(), cases.labels()
    parts = [Fuzziness(), Fuzziness()]
    for metric, rows in zip(parts, torch.arange(len(y)).split([7, len(y) - 7]), strict=True):
        metric.update(x[rows], y[rows])
    # What torchmetrics does on several ranks: states of all ranks concatenated.
    gathered = Fuzziness()
    gathered.update(x[:1], y[:1])
    for name in ("labels", "counts", "means", "scatter"):
        setattr(gathered, name, torch.cat([getattr(m, name)[0] for m in parts]))
    assert gathered.compute().item() == pytest.approx(oracles.fuzziness(x, y), rel=1e-9)
    parts[0].merge_state(parts[1])
    assert parts[0].compute().item() == pytest.approx(oracles.fuzziness(x, y), rel=1e-9)
