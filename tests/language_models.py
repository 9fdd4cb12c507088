"""Tiny language models of many families, made from their transformers configurations."""

import torch

VOCABULARY = 60
WIDTH = 16
DEPTH = 4

_LLAMA_LIKE = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
}
_NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_WITH_HEAD_DIM = _LLAMA_LIKE | {"head_dim": 8}
_NEOX_LIKE = {k: v for k, v in _LLAMA_LIKE.items() if k != "num_key_value_heads"}
_GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": WIDTH,
    "n_layer": DEPTH,
    "n_head": 2,
    "n_positions": 64,
}

# family: (configuration class, model class, settings, kind of the final norm)
CAUSAL = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", _GPT2, "LayerNorm"),
    "gpt-1": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", _GPT2, "none"),
    "gpt-neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _NEOX_LIKE, "LayerNorm"),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "word_embed_proj_dim": WIDTH,
            "ffn_dim": 24,
            "num_hidden_layers": DEPTH,
            "num_attention_heads": 2,
            "max_position_embeddings": 64,
        },
        "LayerNorm",
    ),
    "bloom": (
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": DEPTH, "n_head": 2},
        "LayerNorm",
    ),
    "falcon": ("FalconConfig", "FalconForCausalLM", _NEOX_LIKE, "LayerNorm"),
    "phi": ("PhiConfig", "PhiForCausalLM", _LLAMA_LIKE, "LayerNorm"),
    "llama": ("LlamaConfig", "LlamaForCausalLM", _LLAMA_LIKE, "RMSNorm"),
    "mistral": ("MistralConfig", "MistralForCausalLM", _LLAMA_LIKE, "RMSNorm"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", _LLAMA_LIKE, "RMSNorm"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", _WITH_HEAD_DIM, "RMSNorm"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", _WITH_HEAD_DIM, "RMSNorm"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", _WITH_HEAD_DIM, "RMSNorm"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", _WITH_HEAD_DIM, "RMSNorm"),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", _LLAMA_LIKE, "LayerNorm"),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", _LLAMA_LIKE, "RMSNorm"),
    "mamba": (
        "MambaConfig",
        "MambaForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": DEPTH,
            "state_size": 4,
        },
        "RMSNorm",
    ),
    "mamba2": (
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": DEPTH,
            "state_size": 4,
            "num_heads": 4,
            "head_dim": 8,
            "n_groups": 1,
            "chunk_size": 8,
        },
        "RMSNorm",
    ),
    "rwkv": (
        "RwkvConfig",
        "RwkvForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": DEPTH,
            "rescale_every": 2,
            "context_length": 64,
        },
        "LayerNorm",
    ),
    "jamba": (
        "JambaConfig",
        "JambaForCausalLM",
        {
            **_LLAMA_LIKE,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
        "RMSNorm",
    ),
}


def build(family, **changes):
    """A tiny model of a family with its own initialisation, made larger so that blocks do much."""
    import transformers

    config_name, model_name, settings, _ = CAUSAL[family]
    config = getattr(transformers, config_name)(**{**_NO_TOKENS, **settings, **changes})
    torch.manual_seed(0)
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
            elif "norm" in name or "ln" in name:  # trained gains and shifts
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def token_batches(batches=4, sequences=6, tokens=20, seed=1):
    """Random ids; a first-order chain, so that there is something to predict."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(batches):
        steps = torch.randint(0, 7, (sequences, tokens), generator=generator)
        start = torch.randint(0, VOCABULARY, (sequences, 1), generator=generator)
        made.append((start + steps.cumsum(dim=1)) % VOCABULARY)
    return made
