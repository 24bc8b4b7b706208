#!/usr/bin/env python3
"""Times encoders of random weights on RLX's CUDA executor and on PyTorch's compiler in bf16, in turns in one run.

    cargo build --release -p rlx-native --example entry
    python3 benches/cuda/encoders.py [--models bert,dinov2,wav2vec2] [--batch 16] [--rounds 5] [--entry BINARY] [--out FILE]

Both sides get the same weights, rounded to bf16 in the file, and compute in 16-bit floats. The networks are written here
with PyTorch's own layers and its fused attention, so that no other package is needed, and compiled with
`torch.compile` in each of `--modes` (`eager`: not compiled); the fastest counts. Both sides' inputs and outputs stay on
the card. Sides whose outputs differ are not timed. Without a card both run on the CPU, to try this script.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)
CARD = "cuda" if torch.cuda.is_available() else "cpu"


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (f(x).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, d))


class Block(nn.Module):
    """A layer whose norms stand behind its branches (BERT, wav2vec 2.0), or before them with scales (DINOv2)."""

    def __init__(self, dim, ffn, heads, eps, first):
        super().__init__()
        self.first = first
        self.attention, self.up, self.down = Attention(dim, heads), nn.Linear(dim, ffn), nn.Linear(ffn, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps), nn.LayerNorm(dim, eps)
        if first:
            self.scale1, self.scale2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        if self.first:
            x = x + self.scale1 * self.attention(self.norm1(x))
            return x + self.scale2 * self.down(F.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    vocab, positions, tokens = 30522, 512, 128

    def __init__(self):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(self.vocab, 768), nn.Embedding(self.positions, 768), nn.Embedding(2, 768)
        self.norm = nn.LayerNorm(768, 1e-12)
        self.blocks = nn.ModuleList(Block(768, 3072, 12, 1e-12, False) for _ in range(12))

    def forward(self, input_ids):
        x = self.words(input_ids) + self.places.weight[: input_ids.shape[1]] + self.kinds.weight[0]
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return x

    def names(self):
        e = "embeddings."
        yield from (("words.weight", e + "word_embeddings.weight"), ("places.weight", e + "position_embeddings.weight"),
                    ("kinds.weight", e + "token_type_embeddings.weight"), ("norm", e + "LayerNorm"))
        for i in range(12):
            p, q = f"blocks.{i}.", f"encoder.layer.{i}."
            for a, b in (("attention.q", "attention.self.query"), ("attention.k", "attention.self.key"), ("attention.v", "attention.self.value"),
                         ("attention.o", "attention.output.dense"), ("norm1", "attention.output.LayerNorm"), ("up", "intermediate.dense"),
                         ("down", "output.dense"), ("norm2", "output.LayerNorm")):
                yield p + a, q + b

    config = dict(model_type="bert", architectures=["BertModel"], hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                  num_attention_heads=12, vocab_size=vocab, max_position_embeddings=positions, type_vocab_size=2, layer_norm_eps=1e-12,
                  hidden_act="gelu")
    entry, output = "encode", "hidden"

    def inputs(self, batch):
        ids = (np.arange(batch * self.tokens, dtype=np.int64) * 7919 % self.vocab).reshape(batch, -1)
        return {"input_ids": ids}, {"token_type_ids": np.zeros_like(ids), "attention_mask": np.ones_like(ids)}


class Dinov2(nn.Module):
    """DINOv2-small at 224 by 224."""

    def __init__(self):
        super().__init__()
        d = 384
        self.cls, self.places = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(1, 257, d))
        self.patches, self.norm = nn.Conv2d(3, d, 14, 14), nn.LayerNorm(d, 1e-6)
        self.blocks = nn.ModuleList(Block(d, 4 * d, 6, 1e-6, True) for _ in range(12))

    def forward(self, pixel_values):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def names(self):
        e = "embeddings."
        yield from (("cls", e + "cls_token"), ("places", e + "position_embeddings"), ("patches", e + "patch_embeddings.projection"),
                    ("norm", "layernorm"))
        for i in range(12):
            p, q = f"blocks.{i}.", f"encoder.layer.{i}."
            for a, b in (("attention.q", "attention.attention.query"), ("attention.k", "attention.attention.key"),
                         ("attention.v", "attention.attention.value"), ("attention.o", "attention.output.dense"), ("norm1", "norm1"),
                         ("norm2", "norm2"), ("up", "mlp.fc1"), ("down", "mlp.fc2"), ("scale1", "layer_scale1.lambda1"),
                         ("scale2", "layer_scale2.lambda1")):
                yield p + a, q + b

    config = dict(model_type="dinov2", architectures=["Dinov2Model"], hidden_size=384, num_hidden_layers=12, num_attention_heads=6,
                  mlp_ratio=4, image_size=224, patch_size=14, num_channels=3, layer_norm_eps=1e-6, hidden_act="gelu", qkv_bias=True,
                  layerscale_value=1.0, use_swiglu_ffn=False)
    entry, output = "encode", "hidden"

    def inputs(self, batch):
        return {"pixel_values": np.random.default_rng(3).standard_normal((batch, 3, 224, 224), dtype=np.float32)}, {}


class Wav2vec2(nn.Module):
    """wav2vec 2.0 base, one second of sound for each text of the batch, to its last rows."""

    widths, steps = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(1 if i == 0 else 512, 512, w, s, bias=False) for i, (w, s) in enumerate(zip(self.widths, self.steps)))
        self.group = nn.GroupNorm(512, 512)
        self.norm0, self.project = nn.LayerNorm(512, 1e-5), nn.Linear(512, 768)
        self.place, self.norm = nn.Conv1d(768, 768, 128, padding=64, groups=16), nn.LayerNorm(768, 1e-5)
        self.blocks = nn.ModuleList(Block(768, 3072, 12, 1e-5, False) for _ in range(12))
        self.head = nn.Linear(768, 32)

    def forward(self, input_values):
        x = F.gelu(self.group(self.convs[0](input_values[:, None])))
        for conv in self.convs[1:]:
            x = F.gelu(conv(x))
        x = self.project(self.norm0(x.transpose(1, 2)))
        x = self.norm(x + F.gelu(self.place(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def names(self):
        p = "wav2vec2."
        for i in range(7):
            yield f"convs.{i}.weight", p + f"feature_extractor.conv_layers.{i}.conv.weight"
        yield from (("group", p + "feature_extractor.conv_layers.0.layer_norm"), ("norm0", p + "feature_projection.layer_norm"),
                    ("project", p + "feature_projection.projection"), ("place", p + "encoder.pos_conv_embed.conv"),
                    ("norm", p + "encoder.layer_norm"), ("head", "lm_head"))
        for i in range(12):
            a, q = f"blocks.{i}.", p + f"encoder.layers.{i}."
            for x, y in (("attention.q", "attention.q_proj"), ("attention.k", "attention.k_proj"), ("attention.v", "attention.v_proj"),
                         ("attention.o", "attention.out_proj"), ("norm1", "layer_norm"), ("up", "feed_forward.intermediate_dense"),
                         ("down", "feed_forward.output_dense"), ("norm2", "final_layer_norm")):
                yield a + x, q + y

    config = dict(model_type="wav2vec2", architectures=["Wav2Vec2ForCTC"], hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                  num_attention_heads=12, conv_dim=[512] * 7, conv_kernel=list(widths), conv_stride=list(steps), vocab_size=32,
                  num_conv_pos_embeddings=128, num_conv_pos_embedding_groups=16, layer_norm_eps=1e-5, hidden_act="gelu",
                  feat_extract_norm="group", feat_extract_activation="gelu", conv_bias=False, do_stable_layer_norm=False)
    entry, output = "encode", "logits"

    def written(self, named):
        """The convolution for places has its weight as a direction and lengths."""
        w = named.pop("wav2vec2.encoder.pos_conv_embed.conv.weight")
        at = "wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original"
        return named | {at + "0": w.norm(dim=(0, 1), keepdim=True), at + "1": w}

    def inputs(self, batch):
        x = np.random.default_rng(4).standard_normal((batch, 16000), dtype=np.float32)
        return {"input_values": x}, {"attention_mask": np.ones(x.shape, np.int64)}


MODELS = {"bert": Bert, "dinov2": Dinov2, "wav2vec2": Wav2vec2}


def wait():
    if CARD == "cuda":
        torch.cuda.synchronize()


def write_model(folder, model):
    """The model's folder in bf16, by the names that its family has."""
    state, named = model.state_dict(), {}
    for own, name in model.names():
        if own in state:
            named[name] = state[own]
        else:
            named |= {f"{name}.{part}": state[f"{own}.{part}"] for part in ("weight", "bias") if f"{own}.{part}" in state}
    header, at, blobs = {}, 0, []
    for name, x in model.written(named).items() if hasattr(model, "written") else named.items():
        blob = x.detach().cpu().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[name] = dict(dtype="BF16", shape=list(x.shape), data_offsets=[at, at + len(blob)])
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.writelines(blobs)
    json.dump(model.config, open(os.path.join(folder, "config.json"), "w"))


class Torch:
    def __init__(self, model, given, mode):
        self.given = {k: torch.from_numpy(x).to(CARD) for k, x in given.items()}
        self.given = {k: x.bfloat16() if x.is_floating_point() else x for k, x in self.given.items()}
        self.call = model if mode == "eager" else torch.compile(model, mode=mode)

    def run(self, runs):
        times = []
        with torch.inference_mode():
            for _ in range(runs):
                wait()
                begin = time.perf_counter()
                self.out = self.call(**self.given)
                wait()
                times.append((time.perf_counter() - begin) * 1e3)
        return times


class Rlx:
    def __init__(self, binary, folder, device, floats, model, given):
        for name, x in given.items():
            np.save(os.path.join(folder, name + ".npy"), x)
        self.folder, self.entry, self.output = folder, model.entry, model.output
        self.p = subprocess.Popen([binary, folder, device, "1", floats], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.adapter = self.p.stdout.readline().strip()

    def ask(self, what, how=""):
        self.p.stdin.write(f"{self.entry} {what} {self.folder} {how}\n")
        self.p.stdin.flush()
        return self.p.stdout.readline() or sys.exit(f"rlx ended with {self.p.wait()}")

    def run(self, runs):
        return [float(x) for x in self.ask(runs, "kept").split()]

    def out(self):
        self.ask(1)
        return np.load(os.path.join(self.folder, "out", self.output + ".npy"))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--models", default=",".join(MODELS))
    args.add_argument("--batch", type=int, default=16)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--device", default="cuda")
    args.add_argument("--floats", default="bf16,f16")
    args.add_argument("--entry", default="target/release/examples/entry")
    args.add_argument("--modes", default="max-autotune-no-cudagraphs,reduce-overhead")
    args.add_argument("--out")
    args = args.parse_args()
    results = []
    for name in args.models.split(","):
        model = MODELS[name]().eval()
        with torch.no_grad():
            for p in model.parameters():  # values of a sensible size everywhere, none at zero or one
                p.copy_((p if p.dim() == 1 else torch.randn_like(p) * p[0].numel() ** -0.5) + (torch.randn_like(p) * 0.02 if p.dim() == 1 else 0))
        given, more = model.inputs(args.batch)
        with tempfile.TemporaryDirectory() as folder:
            write_model(folder, model)
            sides = {f"rlx {floats}": Rlx(args.entry, folder, args.device, floats, model, given | more) for floats in args.floats.split(",")}
            on_card = model.to(CARD).bfloat16()
            for mode in args.modes.split(","):
                sides[f"pytorch {mode}"] = Torch(on_card, given, mode)
            with torch.inference_mode():
                f = {k: torch.from_numpy(x).to(CARD) for k, x in given.items()}
                exact = model.float()(**f).cpu().numpy()
                model.bfloat16()
            for side in sides.values():
                side.run(3)
            found = {}
            for key, side in sides.items():
                out = side.out() if isinstance(side, Rlx) else side.out.float().cpu().numpy()
                found[key] = float(np.abs(out.reshape(exact.shape) - exact).mean() / np.abs(exact).mean())
            bad = {k: x for k, x in found.items() if not x < 0.1}
            if bad:
                print(f"{name}: sides differ, not timed: {found}", flush=True)
                continue
            times = {key: [] for key in sides}
            for r in range(args.rounds):
                for key in list(sides)[r % len(sides):] + list(sides)[: r % len(sides)]:
                    times[key].append(min(sides[key].run(10)))
            line = {"model": name, "batch": args.batch, "ms": {k: round(statistics.median(t), 4) for k, t in times.items()}, "mean_difference": found}
            results.append(line)
            print(json.dumps(line), flush=True)
    if args.out:
        json.dump({"gpu": torch.cuda.get_device_name() if CARD == "cuda" else CARD, "torch": torch.__version__, "results": results}, open(args.out, "w"), indent=1)


if __name__ == "__main__":
    main()
