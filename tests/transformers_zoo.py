"""Tiny randomly initialised `transformers` models: one table, nothing downloaded.

In: nothing; the weights come from the configuration and the seed. Out: `MODELS`, rows of a name, `build()`
(a module in eval mode, the same weights at every call) and `inputs()` (the keyword arguments of one forward
call, the same tensors at every call). Outputs are the library's own `ModelOutput` dataclasses and attention
is whatever it picks by default, so that a test meets what a user meets; only the key-value cache is off: it
is state and not a result.

Hidden size, heads, feed-forward width and vocabulary differ, so that an axis mistaken for another one shows.
Not here: trained weights, tokenizers, image processors.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers as hf
from torch import Tensor, nn

BATCH, LENGTH, VOCABULARY = 2, 7, 61


@dataclass(frozen=True)
class ZooModel:
    """One row: a model class with its configuration, and how its inputs are drawn."""

    name: str
    model_class: type[nn.Module]
    configuration: Callable[[], hf.PreTrainedConfig]
    draw: Callable[[torch.Generator], dict[str, object]]

    def build(self, seed: int = 0) -> nn.Module:
        """The model in eval mode, all of it random: also biases, norms and running statistics."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.model_class(self.configuration()).eval()
            for parameter in model.parameters():
                parameter.data.add_(0.1 * torch.randn_like(parameter))
            for name, buffer in model.named_buffers():
                if "running" in name:
                    buffer.add_(0.3 * torch.rand_like(buffer))
        return model

    def inputs(self, seed: int = 0) -> dict[str, object]:
        """Keyword arguments for one forward call of `build()`."""
        return self.draw(torch.Generator().manual_seed(seed))

    def __repr__(self) -> str:
        return self.name


def tokens(generator: torch.Generator, length: int = LENGTH) -> Tensor:
    """Token ids [batch, length], above the small ids that are reserved for padding, start and end."""
    return torch.randint(5, VOCABULARY, (BATCH, length), generator=generator)


def attention_mask(length: int = LENGTH) -> Tensor:
    """A mask [batch, length] whose second row ends in two padded tokens."""
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[1, -2:] = 0
    return mask


def text(generator: torch.Generator) -> dict[str, object]:
    """What an encoder takes."""
    return {"input_ids": tokens(generator)}


def padded_text(generator: torch.Generator) -> dict[str, object]:
    """What an encoder takes for a padded batch."""
    return {"input_ids": tokens(generator), "attention_mask": attention_mask()}


def causal_text(generator: torch.Generator) -> dict[str, object]:
    """What a decoder takes."""
    return {"input_ids": tokens(generator), "use_cache": False}


def source_and_target(generator: torch.Generator) -> dict[str, object]:
    """What an encoder-decoder takes."""
    return {
        "input_ids": tokens(generator),
        "decoder_input_ids": tokens(generator, 4),
        "use_cache": False,
    }


def image(generator: torch.Generator, size: int = 16) -> dict[str, object]:
    """What a vision model takes: pixels [batch, 3, size, size]."""
    return {"pixel_values": torch.randn(BATCH, 3, size, size, generator=generator)}


def large_image(generator: torch.Generator) -> dict[str, object]:
    """What a vision model that halves the resolution several times takes."""
    return image(generator, size=32)


def image_and_text(generator: torch.Generator) -> dict[str, object]:
    """What a two-tower model takes."""
    return image(generator) | padded_text(generator)


def mel_spectrogram(generator: torch.Generator) -> dict[str, object]:
    """What a speech-to-text model takes: mel features [batch, bins, frames] and the target so far."""
    return {
        "input_features": torch.randn(BATCH, 10, 12, generator=generator),
        "decoder_input_ids": tokens(generator, 4),
        "use_cache": False,
    }


def waveform(generator: torch.Generator) -> dict[str, object]:
    """What an audio encoder takes: samples [batch, time]."""
    return {"input_values": torch.randn(BATCH, 200, generator=generator)}


# The names that most text configurations share. Hidden size 24 in four heads of 6.
ENCODER = dict(
    vocab_size=VOCABULARY,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=16,
)
# Grouped queries: four heads of queries share two heads of keys and values.
DECODER = ENCODER | dict(num_key_value_heads=2)
PATCHES = dict(
    image_size=16,
    patch_size=8,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
)

MODELS: tuple[ZooModel, ...] = (
    # Encoders of text.
    ZooModel("bert", hf.BertModel, lambda: hf.BertConfig(**ENCODER), padded_text),
    ZooModel("bert_masked_lm", hf.BertForMaskedLM, lambda: hf.BertConfig(**ENCODER), text),
    ZooModel(
        "roberta_classifier",
        hf.RobertaForSequenceClassification,
        lambda: hf.RobertaConfig(**ENCODER, num_labels=3),
        text,
    ),
    ZooModel(
        "distilbert",
        hf.DistilBertForMaskedLM,
        lambda: hf.DistilBertConfig(
            vocab_size=VOCABULARY, dim=24, hidden_dim=40, n_layers=2, n_heads=4, max_position_embeddings=16
        ),
        text,
    ),
    ZooModel(
        "albert",
        hf.AlbertModel,
        lambda: hf.AlbertConfig(**ENCODER, embedding_size=12),
        text,
    ),
    ZooModel(
        "electra",
        hf.ElectraForPreTraining,
        lambda: hf.ElectraConfig(**ENCODER, embedding_size=12),
        text,
    ),
    ZooModel(
        "deberta_v2",
        hf.DebertaV2Model,
        lambda: hf.DebertaV2Config(**ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"]),
        text,
    ),
    ZooModel(
        "fnet",
        hf.FNetModel,
        lambda: hf.FNetConfig(
            vocab_size=VOCABULARY,
            hidden_size=24,
            num_hidden_layers=2,
            intermediate_size=40,
            max_position_embeddings=16,
        ),
        text,
    ),
    ZooModel(
        "modernbert",
        hf.ModernBertForMaskedLM,
        lambda: hf.ModernBertConfig(
            **ENCODER, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2
        ),
        text,
    ),
    # Decoders of text.
    ZooModel(
        "gpt2",
        hf.GPT2LMHeadModel,
        lambda: hf.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=24,
            n_layer=2,
            n_head=4,
            n_inner=40,
            n_positions=16,
            bos_token_id=1,
            eos_token_id=2,
        ),
        causal_text,
    ),
    ZooModel(
        "gpt_neox",
        hf.GPTNeoXForCausalLM,
        lambda: hf.GPTNeoXConfig(**ENCODER | dict(num_attention_heads=2)),
        causal_text,
    ),
    ZooModel(
        "opt",
        hf.OPTForCausalLM,
        lambda: hf.OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=24,
            word_embed_proj_dim=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=40,
            max_position_embeddings=16,
        ),
        causal_text,
    ),
    ZooModel(
        "bloom",
        hf.BloomForCausalLM,
        lambda: hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=24, n_layer=2, n_head=4),
        causal_text,
    ),
    ZooModel("llama", hf.LlamaForCausalLM, lambda: hf.LlamaConfig(**ENCODER), causal_text),
    ZooModel("mistral", hf.MistralForCausalLM, lambda: hf.MistralConfig(**DECODER, sliding_window=4), causal_text),
    ZooModel("qwen2", hf.Qwen2ForCausalLM, lambda: hf.Qwen2Config(**DECODER), causal_text),
    ZooModel("qwen3", hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**DECODER, head_dim=8), causal_text),
    ZooModel("gemma", hf.GemmaForCausalLM, lambda: hf.GemmaConfig(**DECODER, head_dim=8), causal_text),
    ZooModel(
        "phi",
        hf.PhiForCausalLM,
        lambda: hf.PhiConfig(**DECODER | dict(hidden_size=32), partial_rotary_factor=0.5),
        causal_text,
    ),
    ZooModel(
        "mixtral",
        hf.MixtralForCausalLM,
        lambda: hf.MixtralConfig(**DECODER, num_local_experts=3, num_experts_per_tok=2),
        causal_text,
    ),
    ZooModel(
        "mamba",
        hf.MambaForCausalLM,
        lambda: hf.MambaConfig(
            vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, state_size=5, time_step_rank=3
        ),
        causal_text,
    ),
    # Encoder-decoders.
    ZooModel(
        "t5",
        hf.T5ForConditionalGeneration,
        lambda: hf.T5Config(
            vocab_size=VOCABULARY,
            d_model=24,
            d_kv=6,
            d_ff=40,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
        source_and_target,
    ),
    ZooModel(
        "t5_gated",
        hf.T5ForConditionalGeneration,
        lambda: hf.T5Config(
            vocab_size=VOCABULARY,
            d_model=24,
            d_kv=5,
            d_ff=40,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        ),
        source_and_target,
    ),
    ZooModel(
        "bart",
        hf.BartForConditionalGeneration,
        lambda: hf.BartConfig(
            vocab_size=VOCABULARY,
            d_model=24,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=3,
            encoder_ffn_dim=40,
            decoder_ffn_dim=44,
            max_position_embeddings=16,
        ),
        source_and_target,
    ),
    ZooModel(
        "whisper",
        hf.WhisperForConditionalGeneration,
        lambda: hf.WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=10,
            d_model=24,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=3,
            encoder_ffn_dim=40,
            decoder_ffn_dim=44,
            max_source_positions=6,
            max_target_positions=8,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
        ),
        mel_spectrogram,
    ),
    # Images.
    ZooModel("vit", hf.ViTModel, lambda: hf.ViTConfig(**PATCHES), image),
    ZooModel("vit_classifier", hf.ViTForImageClassification, lambda: hf.ViTConfig(**PATCHES, num_labels=3), image),
    ZooModel("deit", hf.DeiTModel, lambda: hf.DeiTConfig(**PATCHES), image),
    ZooModel("beit", hf.BeitModel, lambda: hf.BeitConfig(**PATCHES, use_relative_position_bias=True), image),
    ZooModel(
        "dinov2",
        hf.Dinov2Model,
        lambda: hf.Dinov2Config(
            image_size=16,
            patch_size=8,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            mlp_ratio=2,
        ),
        image,
    ),
    ZooModel(
        "swin",
        hf.SwinModel,
        lambda: hf.SwinConfig(
            image_size=32,
            patch_size=4,
            embed_dim=12,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
            mlp_ratio=2.0,
        ),
        large_image,
    ),
    ZooModel(
        "convnext",
        hf.ConvNextForImageClassification,
        lambda: hf.ConvNextConfig(num_stages=2, hidden_sizes=[8, 12], depths=[2, 2], patch_size=4, num_labels=3),
        large_image,
    ),
    ZooModel(
        "resnet",
        hf.ResNetForImageClassification,
        lambda: hf.ResNetConfig(
            embedding_size=8, hidden_sizes=[16, 24], depths=[2, 2], layer_type="bottleneck", num_labels=3
        ),
        large_image,
    ),
    ZooModel(
        "mobilenet_v2",
        hf.MobileNetV2Model,
        lambda: hf.MobileNetV2Config(
            image_size=32, depth_multiplier=0.25, depth_divisible_by=4, min_depth=4, finegrained_output=False
        ),
        large_image,
    ),
    ZooModel(
        "regnet",
        hf.RegNetModel,
        lambda: hf.RegNetConfig(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 2], groups_width=4, layer_type="y"),
        large_image,
    ),
    ZooModel(
        "segformer",
        hf.SegformerForSemanticSegmentation,
        lambda: hf.SegformerConfig(
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[8, 12],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
            num_labels=3,
        ),
        large_image,
    ),
    ZooModel(
        "poolformer",
        hf.PoolFormerModel,
        lambda: hf.PoolFormerConfig(
            num_encoder_blocks=2,
            depths=[1, 1],
            hidden_sizes=[8, 12],
            patch_sizes=[7, 3],
            strides=[4, 2],
            padding=[2, 1],
            mlp_ratio=2.0,
        ),
        large_image,
    ),
    # Images with text; sound.
    ZooModel(
        "clip",
        hf.CLIPModel,
        lambda: hf.CLIPConfig(
            text_config=ENCODER | dict(bos_token_id=1, eos_token_id=2),
            vision_config=PATCHES | dict(hidden_size=32),
            projection_dim=12,
        ),
        image_and_text,
    ),
    ZooModel(
        "wav2vec2",
        hf.Wav2Vec2Model,
        lambda: hf.Wav2Vec2Config(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            conv_dim=(8, 12),
            conv_kernel=(10, 3),
            conv_stride=(5, 2),
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
        ),
        waveform,
    ),
)
