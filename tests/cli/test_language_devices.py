"""A model larger than one device: statistics live where each block lives."""

import dataclasses

import pytest
import torch
from tests.cli import language_folders as folders

import lawscope as ls
from lawscope.capture import language_session
from lawscope.laws.next_token_observer import NextTokenObserver
from lawscope.zoo.hugging_face import quietly
from lawscope.zoo.language import gpt

IDS = torch.randint(0, folders.VOCABULARY, (40, 32), generator=torch.Generator().manual_seed(0))


def test_every_statistic_is_made_on_the_device_of_its_block(monkeypatch):
    look = language_session.look
    devices = tuple(map(torch.device, ("cpu", "cpu", "meta", "meta", "cpu")))

    def elsewhere(*arguments):
        found = look(*arguments)
        return dataclasses.replace(found, blocks=dataclasses.replace(found.blocks, devices=devices))

    monkeypatch.setattr(language_session, "look", elsewhere)
    model = gpt(vocabulary=folders.VOCABULARY, width=12, depth=4, heads=2, context=32)
    with NextTokenObserver(model, IDS) as observer:
        assert [s.moments.yy.device.type for s in observer.statistics] == [d.type for d in devices]


def test_blocks_offloaded_to_disk_give_the_same_answer(language_models, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM

    folder = language_models / "gpt2"
    with quietly():
        whole = AutoModelForCausalLM.from_pretrained(folder)
        names = ("wte", "wpe", "drop", "h.0", "h.3", "ln_f")
        places = {f"transformer.{name}": "cpu" for name in names} | {"lm_head": "cpu"}
        places |= {"transformer.h.1": "disk", "transformer.h.2": "disk"}
        spread = AutoModelForCausalLM.from_pretrained(
            folder, device_map=places, offload_folder=tmp_path
        )
    assert spread.transformer.h[1].mlp.c_fc.weight.device.type == "meta"
    mine, theirs = (ls.next_token(m, [IDS], control=None) for m in (spread, whole))
    assert mine.pr.tolist() == theirs.pr.tolist()
    assert spread.transformer.h[1].mlp.c_fc.weight.device.type == "meta"
