"""Small language models of several architectures under one set of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from lawscope.zoo.hugging_face import quietly, transformers_for
from lawscope.zoo.language import gpt

PLAIN = "gpt"


def language_model(
    style: str = PLAIN,
    *,
    vocabulary: int = 512,
    width: int = 64,
    depth: int = 6,
    heads: int = 4,
    context: int = 64,
    causal: bool = True,
    rotary: bool = False,
) -> nn.Module:
    """A language model with fresh weights, drawn from torch's global generator.

    Args:
        style: ``"gpt"`` in plain PyTorch, or one of ``STYLES`` from its configuration in
            transformers.
        vocabulary: number of tokens. A model that is not causal has one more, the mask.
        width: features of a token.
        depth: number of blocks.
        heads: of the attention, where there is one.
        context: most tokens in a window.
        causal: whether a token sees only what is before it; False for the plain style alone.
        rotary: of the plain style, positions as rotations; others have what they have.

    Returns:
        The network; token ids (B, T) give logits, or an object that has them.

    Raises:
        LawscopeError: the style needs transformers, which is not installed.
        ValueError: there is no such style, or it is always causal.

    Example:
        >>> import torch
        >>> language_model(depth=2, context=8)(torch.zeros(1, 8, dtype=int)).shape
        torch.Size([1, 8, 512])
    """
    if style == PLAIN:
        size = vocabulary + (not causal)
        return gpt(size, width, depth, heads, context, causal=causal, rotary=rotary)
    if style not in _CONFIGURED:
        raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style}")
    if not causal:
        raise ValueError(f"a {style} model is always causal; take style {PLAIN}")
    library = transformers_for(f"A {style} model")
    options = {"vocabulary": vocabulary, "width": width, "depth": depth, "heads": heads}
    with quietly():
        return _CONFIGURED[style](library, context=context, **options)  # type: ignore[no-any-return]


def _gpt2(library: Any, vocabulary: int, width: int, depth: int, heads: int, context: int) -> Any:
    config = library.GPT2Config(
        vocab_size=vocabulary,
        n_embd=width,
        n_layer=depth,
        n_head=heads,
        n_positions=context,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return library.GPT2LMHeadModel(config)


def _llama(library: Any, vocabulary: int, width: int, depth: int, heads: int, context: int) -> Any:
    config = library.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=8 * width // 3,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=None,
    )
    return library.LlamaForCausalLM(config)


def _mistral(
    library: Any, vocabulary: int, width: int, depth: int, heads: int, context: int
) -> Any:
    """Grouped queries, and attention that reaches back half a window."""
    config = library.MistralConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        intermediate_size=8 * width // 3,
        max_position_embeddings=context,
        sliding_window=max(1, context // 2),
        bos_token_id=None,
        eos_token_id=None,
    )
    return library.MistralForCausalLM(config)


def _mamba(library: Any, vocabulary: int, width: int, depth: int, heads: int, context: int) -> Any:
    config = library.MambaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=depth,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return library.MambaForCausalLM(config)


def _rwkv(library: Any, vocabulary: int, width: int, depth: int, heads: int, context: int) -> Any:
    config = library.RwkvConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=depth,
        context_length=context,
        bos_token_id=None,
        eos_token_id=None,
    )
    return library.RwkvForCausalLM(config)


_CONFIGURED: dict[str, Callable[..., Any]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "mamba": _mamba,
    "rwkv": _rwkv,
}
STYLES = (PLAIN, *_CONFIGURED)
