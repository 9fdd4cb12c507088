"""SST-2 from its files, words as numbers, and encoders from a folder."""

import gzip
import sys

import numpy as np
import pytest
import torch

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.zoo.networks.catalogue import build
from lawscope.zoo.networks.encoders import find_encoder, folder_tokens
from lawscope.zoo.text.sentences import FIRST, PADDING, UNKNOWN, load_sst2, tokens, vocabulary

TRAIN = 'label\tsentence\n1\ta " good " film\n0\ta bad film\n'
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sst2").mkdir()
    return tmp_path


@pytest.fixture
def encoder(data):
    """A tiny BERT in the layout of Hugging Face, with its tokenizer."""
    transformers = pytest.importorskip("transformers")
    folder = data / "tiny-bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    settings = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    transformers.BertModel(settings).save_pretrained(folder)
    return "tiny-bert"


def test_files_are_read_gzipped_or_plain_whatever_the_order_of_the_columns(data):
    (data / "sst2" / "train.tsv.gz").write_bytes(gzip.compress(TRAIN.encode()))
    (data / "sst2" / "dev.tsv").write_text("sentence\tlabel\nfine\t1\n")
    found = load_sst2()
    assert found.train == ('a " good " film', "a bad film")
    assert found.y_train.tolist() == [1, 0]
    assert (found.test, found.y_test.tolist()) == (("fine",), [1])
    assert found.y_train.dtype == np.int64
    assert found.class_names == ("negative", "positive")


def test_without_the_files_one_sentence_says_how_to_get_them(data):
    (data / "sst2" / "train.tsv").write_text(TRAIN)
    with pytest.raises(LawscopeError, match=r"SST-2\.zip.*LAWSCOPE_DATA"):
        load_sst2()


def test_words_are_numbered_by_frequency_and_then_by_the_alphabet():
    numbers = vocabulary(["b a a", "c b a", "d"], size=FIRST + 4)
    assert numbers == {"a": FIRST + 1, "b": FIRST + 2, "c": FIRST + 3}


def test_sentences_are_padded_and_cut_off():
    rows = tokens(["a b", "a a a a", ""], {"a": 3}, length=4)
    assert rows.tolist() == [
        [FIRST, 3, UNKNOWN, PADDING],
        [FIRST, 3, 3, 3],
        [FIRST, PADDING, PADDING, PADDING],
    ]


def test_a_folder_brings_its_own_tokenizer(encoder):
    rows = folder_tokens(encoder, ["a good film", "bad"], length=6)
    assert rows.tolist() == [[2, 5, 6, 8, 3, 0], [2, 7, 3, 0, 0, 0]]


def test_a_folder_is_fine_tuned_with_a_classifier_drawn_from_the_seed(encoder):
    def built(seed):
        torch.manual_seed(seed)
        return build("pretrained-encoder", folder=encoder).eval()

    a, b, again = built(0), built(1), built(0)
    differing = {n for n, p in a.state_dict().items() if not torch.equal(p, b.state_dict()[n])}
    assert any("classifier" in name for name in differing)
    assert not any("encoder.layer" in name for name in differing)
    assert all(map(torch.equal, a.state_dict().values(), again.state_dict().values()))


def test_a_pretrained_encoder_ignores_padding_and_shows_its_blocks(encoder):
    network = build("pretrained-encoder", folder=encoder).eval()
    short = torch.tensor([[2, 5, 3], [2, 7, 3]])
    long = torch.cat([short, torch.zeros(2, 5, dtype=torch.int64)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(network(short), network(long))
    blocks = [s.name for s in ls.stations(network, long).granularity("blocks")]
    assert [name.rpartition(".")[2] for name in blocks] == ["0:in", "0", "1", "2"]


def test_loading_says_nothing_and_leaves_the_verbosity_as_it_was(encoder, capfd):
    logging = pytest.importorskip("transformers").logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    build("pretrained-encoder", folder=encoder)
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_a_tokenizer_that_pads_with_another_number_is_refused(encoder, data):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.BertTokenizerFast(
        str(data / encoder / "vocab.txt"), pad_token="[MASK]"
    )
    tokenizer.save_pretrained(data / encoder)
    with pytest.raises(LawscopeError, match="pads with token 4"):
        folder_tokens(encoder, ["a"], length=4)


def test_a_folder_that_is_not_there_is_said_with_what_to_do(data):
    with pytest.raises(LawscopeError, match=r"no encoder 'bert-base-cased'.*LAWSCOPE_DATA"):
        find_encoder("bert-base-cased")


def test_a_config_in_the_data_directory_itself_is_no_encoder(data):
    (data / "config.json").write_text("{}")
    with pytest.raises(LawscopeError, match="no encoder"):
        find_encoder("bert-base-cased")


def test_a_folder_without_weights_is_refused(encoder, data):
    (data / encoder / "model.safetensors").unlink()
    with pytest.raises(LawscopeError, match="cannot be loaded as an encoder") as caught:
        build("pretrained-encoder", folder=encoder)
    assert "\n" not in str(caught.value)


def test_without_transformers_the_remedy_is_said(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(LawscopeError, match=r"pip install \"lawscope\[llm\]\""):
        build("pretrained-encoder", folder=encoder)
