"""Every classifier that transformers can build from a tiny configuration, and what is found in it.

``python -m tests.capture.families`` writes the table of docs/networks.md again, in about a minute;
test_families.py sees to it that the page is current.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from lawscope.capture.head import find_head
from lawscope.capture.session import Session
from lawscope.data.source import Source
from lawscope.errors import LawscopeError

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
MODALITIES = {"image": "IMAGE", "text": "SEQUENCE", "audio": "AUDIO", "video": "VIDEO"}
CLASSES, SAMPLES, TOKENS, LAYERS = 5, 11, 16, 4

# What a configuration says about size, by field; taken where the configuration has the field.
SIZES = {
    "hidden_size d_model n_embd embedding_size emb_dim dim word_embed_proj_dim": 16,
    "input_embedding_size output_embedding_size d_latents embed_dim": 16,
    "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers": LAYERS,
    "num_decoder_layers num_encoder_layers": LAYERS,
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads": 2,
    "decoder_attention_heads num_key_value_heads num_kv_heads linear_num_key_heads": 2,
    "linear_num_value_heads index_n_heads num_self_attention_heads num_cross_attention_heads": 2,
    "head_dim d_kv d_head v_head_dim qk_nope_head_dim qk_rope_head_dim index_head_dim": 8,
    "linear_key_head_dim linear_value_head_dim attention_head_size kv_channels": 8,
    "intermediate_size d_ff d_inner ffn_dim encoder_ffn_dim decoder_ffn_dim hidden_dim": 20,
    "ffn_hidden_size moe_intermediate_size shared_expert_intermediate_size": 20,
    "feed_forward_size dff q_lora_rank kv_lora_rank": 20,
    "vocab_size entity_vocab_size pronunciation_vocab_size shape_vocab_size": 40,
    "max_position_embeddings n_positions max_seq_len max_2d_position_embeddings": 64,
    "num_hash_buckets pred_hidden_size pred_num_attention_heads": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size crop_size": 32,
    "patch_size": 8,
    "num_experts num_local_experts n_routed_experts": 4,
    "num_experts_per_tok moe_topk": 2,
    "n_group topk_group n_shared_experts": 1,
    "sliding_window num_latents classifier_proj_size": 8,
    "num_frames frames_per_clip num_conv_pos_embeddings num_conv_pos_embedding_groups": 4,
}
SMALL = {name: value for names, value in SIZES.items() for name in names.split()}
STAGES = {"depths": 2, "num_attention_heads": 2, "num_heads": 2, "conv_dim": 8, "num_groups": 1}
# Fields that a configuration leaves open and a network needs.
OPEN = (
    "pad_token_id bos_token_id eos_token_id vocab_size head_dim num_key_value_heads "
    "num_experts_per_tok"
).split()
SWIN = {"window_size": 2, "embed_dim": 8, "depths": [1, 1, 2], "num_heads": [2, 2, 2]}
HYBRID = ["mamba", "hybrid", "mamba", "hybrid"]
OVERRIDES: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 16},
    "bit": {"num_groups": 1},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "cvt": {"embed_dim": [8, 8, 16], "num_heads": [1, 1, 2], "depth": [1, 2, 4]},
    "donut-swin": SWIN,
    "efficientnet": {"width_coefficient": 0.1, "depth_coefficient": 0.5, "hidden_dim": 128},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gptj": {"rotary_dim": 4},
    "hgnet_v2": {
        "stem_channels": [3, 4, 8],
        "stage_in_channels": [8, 8, 8, 8],
        "stage_mid_channels": [4, 4, 4, 4],
        "stage_out_channels": [8, 8, 8, 8],
        "hidden_sizes": [8, 8, 8, 8],
        "stage_num_blocks": [1, 2, 2, 1],
        "stage_numb_of_layers": [2, 2, 2, 2],
    },
    "hiera": {"embed_dim": 8, "depths": [1, 2, 2, 1], "num_heads": [1, 1, 2, 2]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 2, "shape_size": 4},
    "levit": {"image_size": 64, "patch_size": 16, "hidden_sizes": [16, 24, 32]},
    "lilt": {"hidden_size": 24},
    "mistral4": {"head_dim": 16},
    "mobilenet_v1": {"depth_multiplier": 0.1},
    "mobilenet_v2": {"depth_multiplier": 0.1},
    "mobilevit": {"hidden_sizes": [8, 8, 16], "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 16]},
    "mobilevitv2": {"image_size": 64},
    "reformer": {
        "axial_pos_embds_dim": [8, 8],
        "axial_pos_shape": [4, 4],
        "attn_layers": ["local", "lsh", "local", "lsh"],
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "num_buckets": 2,
        "is_decoder": False,
    },
    "swiftformer": {"depths": [3, 3, 3, 3]},
    "swin": SWIN,
    "swinv2": SWIN,
    "t5": {"decoder_start_token_id": 0},
    "textnet": {"stem_out_channels": 8},
    "whisper": {"num_mel_bins": 8, "max_source_positions": 16},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_hidden_size": 32,
        "attention_head_dim": 16,
        "mamba_dt_rank": 2,
    },
    "zamba2": {"layers_block_type": HYBRID, "layer_types": HYBRID},
}
NAMES = {"vjepa2": "pixel_values_videos", "videoprism_vision_model": "pixel_values_videos"}
LEFT_OUT = {
    "dinat": "needs the package natten",
    "timm_wrapper": "needs the package timm, whose networks it wraps",
    "layoutlmv2": "needs the package detectron2",
    "shieldgemma2": "a language model that is asked about an image, without a classifier",
}


OPENING = """# Networks people have

What lawscope finds, by itself, in the classifiers of Hugging Face transformers {version}: each
family is built from a tiny configuration with random weights, four blocks or a few per stage, and
looked at with {samples} samples. **{built} of {families} families** are measured at their blocks or
layers; the head is found in {whole} of them.

- **default**: what `stations="auto"` takes. "blocks" is the stream after each residual block,
  "layers" every weight after its activation.
- **stations**: how many of them, with the place before the first block (`:in`, an embedding or
  `input`). In **where** numbers of modules are stars, and `#*` is another call of the same one.
- **head**: the linear step that gives the logits, found by its values; or why there is none.

A test builds all of them again and compares with this page, which
`python -m tests.capture.families` writes."""


class Row(NamedTuple):
    """What is found in one family."""

    family: str
    default: str  # granularity; empty where the network was not built
    places: str  # or why it was not built
    head: str
    sentence: str  # where there is no head
    stations: int = 0


def find_families() -> Iterator[tuple[str, str, str]]:
    """Yield modality, model type and class of every classifier that transformers lists."""
    from transformers.models.auto import modeling_auto

    for modality, word in MODALITIES.items():
        mapping = getattr(modeling_auto, f"MODEL_FOR_{word}_CLASSIFICATION_MAPPING_NAMES")
        for kind, classes in mapping.items():
            yield modality, kind, classes if isinstance(classes, str) else classes[0]


def shrink(config: Any, **own: Any) -> dict[str, Any]:
    """Return small values of the fields of a configuration."""
    values = {}
    for name, default in config.to_dict().items():
        several = len(default) if isinstance(default, list | tuple) else 0
        if name in ("hidden_sizes", "embed_dims") and several:
            values[name] = [8 * 2**i for i in range(several)]
        elif name in ("layer_types", "mlp_layer_types") and several:
            values[name] = default[:LAYERS]
        elif name in STAGES and several:
            values[name] = [STAGES[name]] * several
        elif name in SMALL and (default is not None or name in OPEN):
            small = (
                min(SMALL[name], default) if name == "patch_size" and not several else SMALL[name]
            )
            values[name] = [small] * several if several else small
    for name in config.sub_configs:
        if (inner := getattr(config, name, None)) is not None:
            values[name] = shrink(inner)
    return values | own


def build(kind: str, class_name: str) -> nn.Module:
    """Return a tiny network with random weights."""
    import transformers

    default = transformers.CONFIG_MAPPING[kind]
    values = shrink(default(), **OVERRIDES.get(kind, {}))
    torch.manual_seed(0)
    config = default(num_labels=CLASSES, **values)
    return getattr(transformers, class_name)(config).eval()


def make_inputs(modality: str, kind: str, config: Any) -> dict[str, torch.Tensor]:
    """Return a batch as the network takes it."""
    generator = torch.Generator().manual_seed(0)
    if modality == "text" or kind == "imagegpt":
        ids = torch.randint(3, 40, (SAMPLES, TOKENS), generator=generator)
        ids[:, -1] = SMALL["eos_token_id"]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    size = OVERRIDES.get(kind, {}).get("image_size", SMALL["image_size"])
    shapes = {"image": (3, size, size), "video": (4, 3, size, size), "audio": (800,)}
    name = "input_values" if modality == "audio" else NAMES.get(kind, "pixel_values")
    own = {
        "audio-spectrogram-transformer": (name, (32, 16)),
        "siglip2": (name, (16, 192)),
        "wav2vec2-bert": ("input_features", (20, 160)),
        "whisper": ("input_features", (8, 32)),
    }
    name, shape = own.get(kind, (name, shapes[modality]))
    inputs = {name: torch.randn(SAMPLES, *shape, generator=generator)}
    if kind == "siglip2":
        inputs["pixel_attention_mask"] = torch.ones(SAMPLES, 16, dtype=torch.long)
        inputs["spatial_shapes"] = torch.full((SAMPLES, 2), 4)
    return inputs


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep what transformers says about tiny configurations to itself."""
    from transformers import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)


def name_pattern(names: list[str]) -> str:
    """Return names with their numbers as stars, each once: ``layer.*`` for layer.0, layer.1."""
    numberless = (re.sub(r"(?<![^.#])\d+(?![^.#(:])", "*", name) for name in names)
    return ", ".join(dict.fromkeys(f"`{name}`" for name in numberless))


def describe(modality: str, kind: str, class_name: str) -> Row:
    """Return what is found in one family, as a row of the table."""
    if kind in LEFT_OUT:
        return Row(kind, "", f"not built: {LEFT_OUT[kind]}", "", "")
    model = build(kind, class_name)
    session = Session(model, Source([make_inputs(modality, kind, model.config)]))
    default = "blocks" if session.stations.residual else "layers"
    chosen = [s.name for s in session.stations.granularity(default)]
    try:
        head = find_head(session)
        tokens = f" of the {head.positions} token" if head.positions in ("first", "last") else ""
        said = f"`{head.name}`, {head.kind}{tokens or f' {head.positions}'.rstrip()}"
    except LawscopeError as error:
        return Row(
            kind, default, name_pattern(chosen), "", str(error).partition(";")[0], len(chosen)
        )
    return Row(kind, default, name_pattern(chosen), said, "", len(chosen))


def describe_all(modality: str) -> list[Row]:
    """Return the rows of one kind of input."""
    with _quietly():
        return [describe(*family) for family in find_families() if family[0] == modality]


def write_table(modality: str, rows: list[Row]) -> str:
    """Return the section of one kind of input as Markdown."""
    built = [row for row in rows if row.default]
    blocks, heads = (
        sum(map(bool, each))
        for each in zip(*((row.default == "blocks", row.head) for row in built), strict=True)
    )
    lines = [
        f"## {modality.capitalize()}: {len(built)} of {len(rows)} families",
        "",
        f"Residual blocks are found in {blocks}, layers in {len(built) - blocks}, the head in "
        f"{heads}.",
        "",
        "| family | default | stations | where | head |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row.family} | {row.default} | {row.stations or ''} | {row.places} | "
            f"{row.head or row.sentence} |"
            for row in rows
        ),
    ]
    return "\n".join(lines)


def write_page() -> str:
    """Return docs/networks.md."""
    import transformers

    tables = {modality: describe_all(modality) for modality in MODALITIES}
    every = [row for rows in tables.values() for row in rows]
    built = sum(bool(row.default) for row in every)
    whole = sum(bool(row.head) for row in every)
    opening = OPENING.format(
        built=built,
        families=len(every),
        whole=whole,
        samples=SAMPLES,
        version=transformers.__version__,
    )
    return "\n\n".join([opening, *(write_table(*item) for item in tables.items())]) + "\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    PAGE.write_text(write_page())
