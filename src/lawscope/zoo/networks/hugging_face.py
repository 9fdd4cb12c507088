"""Language models with their tokenizers, from a Hugging Face folder or name or a GGUF file."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lawscope.data.tokens import Task
from lawscope.errors import LawscopeError
from lawscope.files import find_kind


def transformers_for(what: str) -> Any:
    """Import the library because ``what`` needs it."""
    try:
        import transformers
    except ImportError as error:
        raise LawscopeError(f'{what} needs transformers: pip install "lawscope[llm]"') from error
    return transformers


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars and notes of the library; what matters is checked here."""
    logging = transformers_for("this").logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


AUTO_CLASSES: dict[Task, str] = {
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
}
SHOWN = 4
# Words in an error or its name, in lower case, and what they mean.
_REASONS = {
    ("trust_remote_code",): "The {what} of {source} brings code of its own, which lawscope does "
    "not run; give trust_remote_code=True if you trust it.",
    ("gated",): "{source} is gated: ask for access on its page on the hub, log in with "
    "'hf auth login', and try again.",
    ("couldn't connect", "offline mode", "offlinemodeisenabled"): "{source} is neither a folder "
    "here nor in the Hugging Face cache, and the hub cannot be reached; check the name, or "
    "download it first.",
    ("repositorynotfounderror", "hfvalidationerror", "not a valid model"): "{source} is neither a "
    "folder here nor a model on the hub; check the name, and log in if it is private.",
}


@dataclass(frozen=True)
class Source:
    """Where a language model lies."""

    place: str
    gguf: str | None = None
    trust_remote_code: bool = False

    def __str__(self) -> str:
        return self.place if self.gguf is None else str(Path(self.place) / self.gguf)

    @property
    def options(self) -> dict[str, Any]:
        """What every ``from_pretrained`` is given."""
        options: dict[str, Any] = {"trust_remote_code": self.trust_remote_code}
        return options if self.gguf is None else options | {"gguf_file": self.gguf}


def find_source(target: str, gguf: Path | None = None, trust_remote_code: bool = False) -> Source:
    """Understand a target: a folder, a hub name, a GGUF file, or one of the first two with one."""
    if target.endswith(".gguf") and gguf is None:
        target, gguf = str(Path(target).parent), Path(target)
    if gguf is not None:
        transformers_for("A GGUF file")
        if missing := [package for package in ("gguf", "accelerate") if not _has(package)]:
            raise LawscopeError(
                f"A GGUF file needs {' and '.join(missing)} to be read: pip install "
                '"lawscope[llm]".'
            )
        if find_kind(gguf) == "file":
            return Source(str(gguf.parent), gguf.name, trust_remote_code)
    folder = Path(target).expanduser()
    if find_kind(folder) == "folder":
        if gguf is None and find_kind(folder / "config.json") != "file":
            held = _first_few(path.name for path in folder.iterdir())
            raise LawscopeError(
                f"{target} has no config.json, so it is not a Hugging Face folder; it holds: "
                f"{held}. Give the folder that save_pretrained() wrote."
            )
        if gguf is not None and find_kind(folder / gguf) != "file":
            raise LawscopeError(f"There is no GGUF file {gguf}, neither here nor in {target}.")
        return Source(str(folder), None if gguf is None else str(gguf), trust_remote_code)
    if target[:1] in (".", "/", "~") or target.count("/") > 1 or target.endswith("/"):
        raise LawscopeError(
            f"There is no folder {target}; give a Hugging Face folder, a name on the hub such as "
            "org/model, or a .py file that defines 'model' and 'tokenizer'."
        )
    return Source(target, None if gguf is None else str(gguf), trust_remote_code)


def load_language_model(
    source: Source,
    *,
    task: Task = "causal",
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> nn.Module:
    """Load the model in eval mode, without executing code; no device: spread over all there are."""
    library = transformers_for("A Hugging Face model")
    spread: dict[str, Any] = {}
    if device is None:
        if not _has("accelerate"):
            raise LawscopeError(
                "device=None spreads a model over all devices and needs accelerate: pip install "
                '"lawscope[llm]", or name one device.'
            )
        spread = {"device_map": "auto"}
    with _as_sentences(source):
        config = library.AutoConfig.from_pretrained(source.place, **source.options)
        _check_task(config, source, task)
        options = source.options | spread | {"weights_only": True, "output_loading_info": True}
        kind = getattr(library, AUTO_CLASSES[task])
        model, loaded = kind.from_pretrained(source.place, dtype=dtype, **options)
    missing = loaded["missing_keys"]
    if task == "masked" and missing and not _of_encoder(model, missing):
        model = model.base_model  # weights of the encoder alone, which is what is measured
    else:
        _check_weights(model, missing, source)
    model.eval()
    return model if device is None else model.to(device)  # type: ignore[no-any-return]


def load_tokenizer(source: Source) -> Any:
    """Load the tokenizer that lies beside the model."""
    library = transformers_for("A Hugging Face tokenizer")
    with _as_sentences(source, "tokenizer"):
        tokenizer = library.AutoTokenizer.from_pretrained(source.place, **source.options)
        if len(tokenizer) <= len(tokenizer.all_special_ids):  # made up where there are no files
            raise OSError("it knows no words")
    return tokenizer


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _first_few(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join([*names[:SHOWN], *["…"] * (len(names) > SHOWN)]) or "nothing"


def _check_task(config: Any, source: Source, task: Task) -> None:
    """Refuse a model of another kind before its weights are read."""
    both = bool(getattr(config, "is_encoder_decoder", False))
    if both and task != "encoder-decoder":
        raise LawscopeError(
            f"{source} is an encoder–decoder ({config.model_type}); choose "
            "task='encoder-decoder', which measures the decoder."
        )
    if not both and task == "encoder-decoder":
        raise LawscopeError(
            f"{source} ({config.model_type}) has no decoder beside an encoder; leave out "
            "task='encoder-decoder'."
        )
    made = [name for name in getattr(config, "architectures", None) or [] if name]
    masked = any(name.endswith(("MaskedLM", "ForPreTraining")) for name in made)
    if task == "causal" and masked and not getattr(config, "is_decoder", False):
        raise LawscopeError(
            f"{source} is not a causal language model but {made[0]}, which looks ahead; "
            "choose task='masked'."
        )


def _of_encoder(model: Any, missing: Iterable[str]) -> list[str]:
    """Return those of the missing weights that are not of the head but of the model below it."""
    prefix = getattr(model, "base_model_prefix", "")
    if not prefix or not hasattr(model, prefix):
        return list(missing)
    return [key for key in missing if key.startswith(f"{prefix}.")]


def _check_weights(model: Any, missing: Any, source: Source) -> None:
    """Refuse weights that were not in the file: drawn at random, they mean nothing."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    of_head = {name for name, module in model.named_modules() if module is head and head}
    if lost := [key for key in missing if key.rpartition(".")[0] not in of_head]:
        raise LawscopeError(
            f"{source} has no weights for {len(lost)} parameters of {type(model).__name__}: "
            f"{_first_few(lost)}; download it again, or give the folder of this model."
        )


@contextmanager
def _as_sentences(source: Source, what: str = "model") -> Iterator[None]:
    """Turn what a load can go wrong with into one sentence each."""
    try:
        with quietly():
            yield
    except (KeyboardInterrupt, LawscopeError):
        raise
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise LawscopeError(
            f"{source} does not fit into memory; use dtype=torch.bfloat16, or "
            "device=None to spread it."
        ) from error
    except Exception as error:
        raise LawscopeError(_sentence(source, what, error)) from error


def _sentence(source: Source, what: str, error: Exception) -> str:
    chain = [e for e in (error, error.__cause__, error.__context__) if e is not None]
    text = " ".join(f"{type(e).__name__} {e}" for e in chain).lower()
    for words, sentence in _REASONS.items():
        if any(word in text for word in words):
            return sentence.format(what=what, source=source)
    first_line = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    if source.gguf is not None:
        return f"{source} cannot be read as a language model in GGUF: {first_line}."
    if what == "tokenizer":
        return (
            f"{source} has no tokenizer that can be read ({first_line}.); put tokenizer.json "
            "beside the model."
        )
    if any(word in text for word in ("unpicklingerror", "weights_only", "weightsunpickler")):
        return (
            f"The weights of {source} hold objects beside tensors, which lawscope does not "
            "execute; convert them to safetensors."
        )
    return f"{source} cannot be loaded as a language model: {first_line}."
