#!/usr/bin/env python3
"""What networks of images and sound take of a device's memory, by the plan alone: no weight is read, none is made.

    pip install torch transformers diffusers
    cargo build --release -p rlx-native
    python3 benches/vision/plans.py [--only sam_b,..] [--targets cpu,webgpu] [--keep FOLDER] [--out FILE]

Models have the sizes of published ones. Their folders have a header of weights and nothing behind it (a sparse file),
which is all that `rlx inspect` reads. For each entry: the arena beside the largest set of values that live at one step,
which no arena can be smaller than. Above a target's binding limit an arena is several segments; a target may be a
text as `rlx devices` prints it, such as "webgpu buffer=1073741824 binding=1073741824 storage_buffers=8 alignment=256".
"""
import argparse, json, math, pathlib, struct, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def of_transformers(kind, config, **more):
    import transformers
    return getattr(transformers, kind)(getattr(transformers, config)(**more))


def flux2():
    from diffusers import Flux2Transformer2DModel
    return Flux2Transformer2DModel(
        in_channels=128, num_layers=5, num_single_layers=20, attention_head_dim=128, num_attention_heads=24,
        joint_attention_dim=7680, mlp_ratio=3.0, axes_dims_rope=(32, 32, 32, 32), rope_theta=2000, guidance_embeds=False)


def flux2_vae():
    from diffusers import AutoencoderKLFlux2
    return AutoencoderKLFlux2()


def qwen3_4b():
    return of_transformers(
        "Qwen3ForCausalLM", "Qwen3Config", vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, rope_theta=1e6, tie_word_embeddings=True)


# The model, the type of its weights, and its entries with their sizes. Of type Q4_0 are matrices alone, as
# `rlx quantize` packs them; the rest is BF16 then.
MODELS = {
    "vit_b": (lambda: of_transformers("ViTModel", "ViTConfig"), "F32", {"encode": []}),
    "dinov2_s": (lambda: of_transformers("Dinov2Model", "Dinov2Config", hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14),
                 "F32", {"encode": ["HEIGHT=518", "WIDTH=518"]}),
    "wav2vec2_base": (lambda: of_transformers("Wav2Vec2ForCTC", "Wav2Vec2Config"), "F32", {"encode": ["SAMPLES=160000"]}),
    "sam_b": (lambda: of_transformers("SamModel", "SamConfig"), "F32", {"image_embed": [], "mask": ["PROMPTS=1", "POINTS=2"]}),
    "sam2_tiny": (lambda: of_transformers("Sam2Model", "Sam2Config"), "F32", {"image_embed": [], "mask": ["PROMPTS=1", "POINTS=2"]}),
    "sam3": (lambda: of_transformers("Sam3Model", "Sam3Config"), "F32", {"image_embed": [], "text_embed": ["TOKENS=32"], "detect": ["TOKENS=32"]}),
    "flux2_klein": (flux2, "BF16", {"denoise_step": ["SEQ=4096", "TEXT=512"]}),
    "flux2_klein_q4": (flux2, "Q4_0", {"denoise_step": ["SEQ=4096", "TEXT=512"]}),
    "flux2_vae": (flux2_vae, "BF16", {"decode_image": ["HEIGHT=64", "WIDTH=64"]}),
    "qwen3_4b_q4": (qwen3_4b, "Q4_0", {"logits": ["SEQ=512"]}),
}


def folder(make, dtype, path):
    """A folder whose weights are a header and a hole."""
    import torch
    with torch.device("meta"):
        model = make()
    path.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict() if hasattr(model.config, "to_dict") else json.loads(model.to_json_string())
    (path / "config.json").write_text(json.dumps(config, default=list))
    tied = getattr(model, "_tied_weights_keys", None) or []
    tensors = model.state_dict()
    if hasattr(model, "_tied_weights_keys"):  # of transformers, whose files have other names than its modules
        from transformers.core_model_loading import revert_weight_conversion
        tensors = revert_weight_conversion(model, tensors)
    header, packed, at = {}, {}, 0
    for name, tensor in tensors.items():
        if name in tied and getattr(model.config, "tie_word_embeddings", False):
            continue
        shape, kind, size = list(tensor.shape), "F32" if dtype == "F32" else "BF16", 4 if dtype == "F32" else 2
        if not tensor.is_floating_point():
            kind, size = "I64", 8
        elif dtype == "Q4_0" and len(shape) == 2 and "embed" not in name:
            packed[name], kind, size = "q4_0", "U8", 1
            shape[1] = shape[1] // 32 * 18
        bytes = math.prod(shape) * size
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + bytes]}
        at += bytes
    if packed:
        header["__metadata__"] = {"rlx.packed": json.dumps(packed)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def inspect(rlx, path, entry, sizes, target, *more):
    sized = [word for size in sizes for word in ("--size", size)]
    done = subprocess.run([rlx, "inspect", path, "--entry", entry, *sized, "--target", target, "--stage", "lir", *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
parser.add_argument("--targets", default="cpu,webgpu")
parser.add_argument("--rlx", type=pathlib.Path, default=ROOT / "target/release/rlx")
parser.add_argument("--keep", type=pathlib.Path)
parser.add_argument("--out", type=pathlib.Path)
args = parser.parse_args()
wanted = args.only.split(",") if args.only else list(MODELS)
rows = []
with tempfile.TemporaryDirectory() as made:
    for name in wanted:
        make, dtype, entries = MODELS[name]
        path = (args.keep or pathlib.Path(made)) / name
        if not path.exists():
            folder(make, dtype, path)
        for entry, sizes in entries.items():
            for target in args.targets.split(","):
                try:
                    plan = json.loads(inspect(args.rlx, path, entry, sizes, target, "--json"))
                except RuntimeError as error:
                    print(f"{name:14} {entry:13} {target:7} {error}", flush=True)
                    continue
                plan = plan.get("program", plan)
                arena, live = plan["activation_bytes"], plan["largest_live_bytes"]
                row = {"model": name, "entry": entry, "target": target, "weights": plan["weight_bytes"], "arena": arena, "live": live}
                rows.append(row)
                ratio = arena / live if live else 1
                print(f"{name:14} {entry:13} {target:7} weights {row['weights'] / 1e6:8.1f} MB  arena {arena / 1e6:8.1f} MB  live {live / 1e6:8.1f} MB  {ratio:.3f}", flush=True)
if args.out:
    args.out.write_text(json.dumps(rows, indent=1) + "\n")
