#!/usr/bin/env python3
"""Exports architectures with PyTorch, as users do, for `tests/peers/run --models FOLDER`.

    export.py FOLDER [NAME...]        all models, or those of these names

Needs torch, torchvision, timm, transformers and onnxscript. The weights are random; the exporter
is PyTorch's newer one (`dynamo=True`), or the older one where that fails.
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

IMAGE = (1, 3, 224, 224)


def vision(name, **options):
    """A model of torchvision."""
    import torchvision

    return torchvision.models.get_model(name, weights=None, **options), (torch.randn(IMAGE),)


def timm(name):
    """A model of timm."""
    import timm as library

    model = library.create_model(name, pretrained=False)
    side = model.default_cfg["input_size"][-1]
    return model, (torch.randn(1, 3, side, side),)


class Named(nn.Module):
    """A model of transformers whose input has a name, and whose output is the last hidden state."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(**{self.name: x}).last_hidden_state


def transformer(kind, name="input_ids", shape=(1, 128), **config):
    """A model of transformers of one kind, such as `Albert`, with that configuration."""
    import transformers

    kind, config_kind = kind if isinstance(kind, tuple) else (f"{kind}Model", f"{kind}Config")
    config = getattr(transformers, config_kind)(**config)
    config.use_cache = False
    model = Named(getattr(transformers, kind)(config), name)
    is_text = name == "input_ids"
    return model, (torch.randint(0, config.vocab_size, shape) if is_text else torch.randn(shape),)


ENCODER = dict(vocab_size=5000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6,
               intermediate_size=1536)
DECODER = dict(ENCODER, num_key_value_heads=2, intermediate_size=1024)
PIXELS = dict(name="pixel_values", shape=IMAGE)
SOUND = dict(name="input_values", hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=512)


class Dense(nn.Module):
    """Residual blocks of densely connected convolutions, and an enlargement (super-resolution)."""

    def __init__(self, wide=32, grow=16, blocks=4):
        super().__init__()

        def conv(channels, filters):
            return nn.Conv2d(channels, filters, 3, padding=1)

        def block():
            filters = [grow] * 4 + [wide]
            return nn.ModuleList(conv(wide + i * grow, n) for i, n in enumerate(filters))

        self.first, self.last = conv(3, wide), conv(wide, 3)
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.enlarged = nn.ModuleList(conv(wide, wide) for _ in range(2))

    def forward(self, x):
        first = x = self.first(x)
        for block in self.blocks:
            parts = [x]
            for conv in block[:-1]:
                parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            x = x + 0.2 * block[-1](torch.cat(parts, 1))
        x = x + first
        for conv in self.enlarged:
            x = F.leaky_relu(conv(F.interpolate(x, scale_factor=2)), 0.2)
        return self.last(x)


class Reader(nn.Module):
    """Convolutions and an LSTM that read a line of text (CRNN)."""

    def __init__(self):
        super().__init__()
        layers = []
        for channels, filters, pool in [(1, 32, 2), (32, 64, 2), (64, 128, None),
                                        (128, 128, (2, 1)), (128, 256, None), (256, 256, (2, 1))]:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters),
                       nn.ReLU(), *([nn.MaxPool2d(pool)] if pool else [])]
        self.convs = nn.Sequential(*layers, nn.Conv2d(256, 256, 2), nn.ReLU())
        self.lstm = nn.LSTM(256, 128, 2, bidirectional=True)
        self.head = nn.Linear(256, 100)

    def forward(self, x):
        x = self.convs(x).squeeze(2).permute(2, 0, 1)
        return self.head(self.lstm(x)[0]).log_softmax(-1)


class Gated(nn.Module):
    """Dilated convolutions with gates (WaveNet)."""

    def __init__(self, wide=32, depth=8):
        super().__init__()
        self.first, self.last = nn.Conv1d(1, wide, 1), nn.Conv1d(wide, 1, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(wide, 2 * wide, 3, dilation=2**i, padding=2**i) for i in range(depth))
        self.mixes = nn.ModuleList(nn.Conv1d(wide, 2 * wide, 1) for _ in range(depth))

    def forward(self, x):
        x, skips = self.first(x), 0
        for gate, mix in zip(self.gates, self.mixes):
            a, b = gate(x).chunk(2, 1)
            residual, skip = mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, skips = x + residual, skips + skip
        return self.last(torch.relu(skips))


def encoder():
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), (torch.randn(1, 100, 256),)


MODELS = {
    **{f"tv_{name}": lambda name=name: vision(name) for name in [
        "convnext_tiny", "densenet121", "efficientnet_v2_s", "maxvit_t", "mnasnet1_0",
        "regnet_x_800mf", "regnet_y_400mf", "resnext50_32x4d", "shufflenet_v2_x1_0"]},
    "tv_googlenet": lambda: vision("googlenet", aux_logits=False, init_weights=False),
    **{f"timm_{name}": lambda name=name: timm(name) for name in [
        "convnextv2_atto", "cspresnet50", "davit_tiny", "deit_tiny_patch16_224",
        "efficientvit_m0", "eva02_tiny_patch14_224", "fastvit_t8", "hrnet_w18_small", "mixnet_s",
        "mobilenetv4_conv_small", "poolformer_s12", "pvt_v2_b0", "repvit_m0_9",
        "res2net50_14w_8s", "starnet_s1", "tiny_vit_5m_224", "twins_svt_small"]},
    "hf_albert": lambda: transformer("Albert", **ENCODER),
    "hf_bloom": lambda: transformer("Bloom", vocab_size=5000, hidden_size=384, n_layer=4, n_head=6),
    "hf_conformer": lambda: transformer(
        "Wav2Vec2Conformer", shape=(1, 16000), conv_dim=(64,) * 7, **SOUND),
    "hf_deberta": lambda: transformer(
        "DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64,
        max_relative_positions=256, **ENCODER),
    "hf_depth": lambda: transformer("GLPN", depths=[1, 1, 1, 1], **PIXELS),
    "hf_dinov2": lambda: transformer(
        "Dinov2", hidden_size=384, num_hidden_layers=4, num_attention_heads=6, image_size=224,
        **PIXELS),
    "hf_gemma3": lambda: transformer(
        ("Gemma3TextModel", "Gemma3TextConfig"), head_dim=64, sliding_window=64, **DECODER),
    "hf_hubert": lambda: transformer("Hubert", shape=(1, 8000), **SOUND),
    "hf_mamba": lambda: transformer(
        "Mamba", shape=(1, 32), vocab_size=5000, hidden_size=192, num_hidden_layers=2),
    "hf_mobilebert": lambda: transformer("MobileBert", vocab_size=5000, num_hidden_layers=4),
    "hf_modernbert": lambda: transformer(
        "ModernBert", pad_token_id=0, reference_compile=False,
        **dict(ENCODER, intermediate_size=576)),
    "hf_qwen3": lambda: transformer("Qwen3", head_dim=64, **DECODER),
    "nn_dense": lambda: (Dense(), (torch.randn(1, 3, 64, 64),)),
    "nn_encoder": encoder,
    "nn_gated": lambda: (Gated(), (torch.randn(1, 1, 2000),)),
    "nn_reader": lambda: (Reader(), (torch.randn(1, 1, 32, 160),)),
}


def export(name, folder):
    """Writes one model. Batch normalizations get statistics that change something."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    for module in model.eval().modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    file = folder / f"{name}.onnx"
    try:
        torch.onnx.export(model, inputs, file, opset_version=20, dynamo=True, external_data=False)
    except Exception:  # the exporters raise errors of many kinds
        torch.onnx.export(model, inputs, file, opset_version=17, dynamo=False)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        export(name, folder)
        print(name)


if __name__ == "__main__":
    main()
