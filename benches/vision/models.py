#!/usr/bin/env python3
"""Times networks of images and sound on RLX, PyTorch and onnxruntime, in turns in one run, with the same weights.

    pip install torch transformers diffusers onnx onnxruntime
    cargo build --release -p rlx-native --example entry
    python3 benches/vision/models.py [--only dinov2_small_224,..] [--threads 1,2] [--rounds 5] [--out FILE]
    python3 benches/vision/models.py --gpu [--only sam_encoder,flux2_step_1024]     # WebGPU beside PyTorch in f16
    python3 benches/vision/models.py --gpu --launches                               # what RLX's time is made of
    python3 benches/vision/models.py --export FOLDER                                # only writes models, for wasm.mjs

Models have the sizes of published ones and random weights. A round runs each side once in turn, in changing order; a
round's time is its best run, the result the median of the rounds. Before that the sides' outputs are compared: two
that differ are not timed. `ratio` is the peer's time over RLX's, so above 1 RLX is faster. PyTorch on a GPU keeps
its outputs there; RLX's come to the host, which its time has in it.
"""
import argparse, json, os, platform, shutil, statistics, subprocess, sys, tempfile, time
import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
RNG = np.random.default_rng(7)


def normal(*dims):
    return RNG.standard_normal(dims, dtype=np.float32)


class Case:
    """A model, the entry that is timed, its inputs by RLX's names, and what of both sides is the same."""

    def __init__(self, model, entry, inputs, call, output, export=True):
        self.model, self.entry, self.inputs, self.call, self.output, self.export = model, entry, inputs, call, output, export


def vit():
    from transformers import ViTConfig, ViTModel
    return Case(lambda: ViTModel(ViTConfig()), "encode", {"pixel_values": normal(1, 3, 224, 224)},
                lambda m, pixel_values: m(pixel_values).last_hidden_state, "hidden")


def dinov2(size):
    from transformers import Dinov2Config, Dinov2Model
    config = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)
    return Case(lambda: Dinov2Model(config), "encode", {"pixel_values": normal(1, 3, size, size)},
                lambda m, pixel_values: m(pixel_values).last_hidden_state, "hidden")


def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC
    x = normal(1, 160000)
    return Case(lambda: Wav2Vec2ForCTC(Wav2Vec2Config()), "encode",
                {"input_values": x, "attention_mask": np.ones(x.shape, np.int64)},
                lambda m, input_values, attention_mask: m(input_values).logits, "logits")


def sam(part):
    from transformers import SamConfig, SamModel
    make = lambda: SamModel(SamConfig())
    if part == "encoder":
        return Case(make, "image_embed", {"pixel_values": normal(1, 3, 1024, 1024)},
                    lambda m, pixel_values: m.get_image_embeddings(pixel_values), "image_embeddings")
    # RLX's entry has the point of no label as an input, which transformers adds.
    points = np.array([[[[500.0, 375.0], [200.0, 700.0], [0.0, 0.0]]]], np.float32)
    inputs = {"image_embeddings": normal(1, 256, 64, 64), "input_points": points, "input_labels": np.array([[[1, 0, -1]]], np.int64)}
    call = lambda m, image_embeddings, input_points, input_labels: m(
        image_embeddings=image_embeddings, input_points=input_points[:, :, :-1], input_labels=input_labels[:, :, :-1]).pred_masks
    return Case(make, "mask", inputs, call, "pred_masks")


def sam2():
    from transformers import Sam2Config, Sam2Model
    return Case(lambda: Sam2Model(Sam2Config()), "image_embed", {"pixel_values": normal(1, 3, 1024, 1024)},
                lambda m, pixel_values: m.get_image_embeddings(pixel_values)[-1], "image_embeddings")


def flux2(size):
    """FLUX.2 klein 4B's transformer."""
    from diffusers import Flux2Transformer2DModel
    side, text = size // 16, 512
    place = [[0, y, x, 0] for y in range(side) for x in range(side)]
    inputs = {
        "hidden_states": normal(1, side * side, 128), "timestep": np.array([0.7], np.float32),
        "encoder_hidden_states": normal(1, text, 7680), "img_ids": np.array(place, np.int64),
        "txt_ids": np.array([[0, 0, 0, i] for i in range(text)], np.int64),
    }

    def make():
        return Flux2Transformer2DModel(
            in_channels=128, num_layers=5, num_single_layers=20, attention_head_dim=128, num_attention_heads=24,
            joint_attention_dim=7680, mlp_ratio=3.0, axes_dims_rope=(32, 32, 32, 32), rope_theta=2000, guidance_embeds=False)

    def call(m, **given):
        return m(**given, guidance=None, return_dict=False)[0]
    return Case(make, "denoise_step", inputs, call, "sample", export=False)


def flux2_vae(size):
    """The decoder of FLUX.2: latents as the transformer has them, made a picture."""
    from diffusers import AutoencoderKLFlux2
    side = size // 16

    def call(m, latents):
        x = latents.permute(0, 3, 1, 2)
        mean, variance = m.bn.running_mean.view(1, -1, 1, 1), m.bn.running_var.view(1, -1, 1, 1)
        x = x * (variance + m.config.batch_norm_eps).sqrt() + mean
        x = x.reshape(1, 32, 2, 2, side, side).permute(0, 1, 4, 2, 5, 3).reshape(1, 32, 2 * side, 2 * side)
        return m.decode(x.to(latents.dtype), return_dict=False)[0]
    return Case(lambda: AutoencoderKLFlux2(), "decode_image", {"latents": normal(1, side, side, 128)}, call, "image", export=False)


CASES = {
    "dinov2_small_224": lambda: dinov2(224), "dinov2_small_518": lambda: dinov2(518), "vit_b_224": vit,
    "wav2vec2_base_10s": wav2vec2, "sam_b_encoder": lambda: sam("encoder"), "sam_b_decoder": lambda: sam("decoder"),
    "sam2_tiny_encoder": sam2, "flux2_klein_step_1024": lambda: flux2(1024),
    "flux2_vae_1024": lambda: flux2_vae(1024),
}
CPU = [name for name in CASES if not name.startswith("flux2")]
GPU = ["vit_b_224", "dinov2_small_518", "sam_b_encoder", "sam_b_decoder", "flux2_klein_step_1024", "flux2_vae_1024"]


def torch_model(case, gpu):
    import torch
    torch.manual_seed(3)
    if gpu:
        torch.set_default_dtype(torch.float16)
        with torch.device("cuda"):
            model = case.model()
        torch.set_default_dtype(torch.float32)
        model = model.half()
    else:
        model = case.model()
    with torch.no_grad():
        for p in model.parameters():  # what initialisation leaves at zero or one would hide differences
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.02)
            elif gpu:
                p.copy_(torch.randn_like(p) * p[0].numel() ** -0.5)
    return model.eval()


class Torch:
    def __init__(self, case, model, gpu, threads):
        import torch
        self.torch, self.case, self.model, self.gpu, self.threads = torch, case, model, gpu, threads
        given = {k: torch.from_numpy(x) for k, x in case.inputs.items()}
        if gpu:
            given = {k: (x.half() if x.is_floating_point() else x).cuda() for k, x in given.items()}
        self.given = given

    def run(self, runs):
        if not self.gpu:
            self.torch.set_num_threads(self.threads)
        times = []
        with self.torch.inference_mode():
            for _ in range(runs):
                begin = time.perf_counter()
                self.out = self.case.call(self.model, **self.given)
                if self.gpu:
                    self.torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1e3)
        return times

    def output(self):
        return self.out.float().cpu().numpy()


class Onnx:
    def __init__(self, case, path, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        wanted = {i.name for i in self.session.get_inputs()}
        self.given = {k: x for k, x in case.inputs.items() if k in wanted}

    def run(self, runs):
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.out = self.session.run(None, self.given)
            times.append((time.perf_counter() - begin) * 1e3)
        return times

    def output(self):
        return self.out[0]


def export(case, model, path):
    """Writes the model as ONNX."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return case.call(self.model, **dict(zip(case.inputs, inputs)))

    given = tuple(torch.from_numpy(x) for x in case.inputs.values())
    with torch.no_grad():
        torch.onnx.export(Whole().eval(), given, path, input_names=list(case.inputs), output_names=[case.output],
                          opset_version=17, dynamo=False)


class Rlx:
    def __init__(self, binary, case, folder, device, threads, given):
        self.case, self.given = case, given
        self.p = subprocess.Popen([binary, folder, device, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.adapter = self.p.stdout.readline().strip()

    def run(self, runs):
        self.p.stdin.write(f"{self.case.entry} {runs} {self.given}\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"rlx ended with {self.p.wait()}")
        return [float(x) for x in line.split()]

    def launches(self):
        """Launches of a run by kernel and what asked for it: milliseconds and count, the longest first."""
        self.p.stdin.write(f"{self.case.entry} launches {self.given}\n")
        self.p.stdin.flush()
        words = self.p.stdout.readline().rstrip("\n").split("\t")
        kinds = {}
        for label, kernel, ns in zip(words[::3], words[1::3], words[2::3]):
            role = ".".join(w for w in label.split(".") if not any(c.isdigit() for c in w))
            kind = kinds.setdefault((kernel, role), [0.0, 0])
            kind[0] += int(ns) / 1e6
            kind[1] += 1
        return sorted(([round(ms, 3), n, *key] for key, (ms, n) in kinds.items()), reverse=True)

    def output(self):
        return np.load(os.path.join(self.given, "out", f"{self.case.output}.npy"))

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def write_inputs(case, folder):
    os.makedirs(folder, exist_ok=True)
    for name, x in case.inputs.items():
        np.save(os.path.join(folder, f"{name}.npy"), x)


def difference(a, b):
    return float(np.abs(a.reshape(-1) - b.reshape(-1)).max() / np.abs(b).max())


def turns(sides, rounds, least):
    """Medians of the rounds' best times, by side."""
    first = {key: min(side.run(2)) for key, side in sides.items()}
    runs = {key: max(1, min(20, int(least * 1e3 / ms))) for key, ms in first.items()}
    times = {key: [] for key in sides}
    for i in range(rounds):
        order = list(sides.items())
        for key, side in order[i % len(order):] + order[:i % len(order)]:
            times[key].append(min(side.run(runs[key])))
    return {key: statistics.median(t) for key, t in times.items()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", default="")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.7, help="of a side's runs in a round")
    p.add_argument("--binary", default="target/release/examples/entry")
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--export")
    p.add_argument("--launches", action="store_true", help="prints what RLX's time on a GPU is made of, and no peer's")
    p.add_argument("--wide", action="store_true", help="RLX gets weights in f32 where PyTorch has f16")
    p.add_argument("--out")
    args = p.parse_args()
    names = [n for n in args.only.split(",") if n] or (GPU if args.gpu else CPU)
    import torch
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    result = dict(date=time.strftime("%Y-%m-%d"), commit=commit, cpu=cpu[0] if cpu else platform.processor(),
                  cores=os.cpu_count(), torch=torch.__version__, rounds=args.rounds, rows=[])
    if args.gpu:
        result["gpu"] = torch.cuda.get_device_name()
    else:
        try:
            import onnxruntime
            result["onnxruntime"] = onnxruntime.__version__
        except ImportError:
            print("onnxruntime is not installed: it is not timed", file=sys.stderr)
    for name in names:
        case = CASES[name]()
        model = torch_model(case, args.gpu)
        folder = os.path.join(args.export, name) if args.export else tempfile.mkdtemp()
        # What both sides read is the file: buffers that a checkpoint has once are one on both sides.
        (model.float() if args.wide else model).save_pretrained(folder)
        model = type(model).from_pretrained(folder, dtype=torch.float16 if args.gpu else torch.float32)
        if hasattr(model, "shared_image_embedding"):
            # SAM's file has one table of positions; PyTorch makes a second one of random numbers for prompts.
            model.prompt_encoder.shared_embedding = model.shared_image_embedding
        model = (model.cuda() if args.gpu else model).eval()
        onnx = os.path.join(folder, "model.onnx")
        given = os.path.join(folder, "given")
        write_inputs(case, given)
        if not args.gpu and case.export and "onnxruntime" in result:
            try:
                export(case, model, onnx)
            except Exception as e:  # says which, and goes on without that side
                print(f"{name}: no ONNX model: {str(e).splitlines()[0]}", file=sys.stderr)
        if args.export:
            Torch(case, model, False, 2).run(1)
            continue
        for threads in [0] if args.gpu else [int(n) for n in args.threads.split(",")]:
            rlx = Rlx(args.binary, case, folder, "webgpu" if args.gpu else "cpu", threads, given)
            if args.launches:
                kinds = rlx.launches()
                print(f"{name}: {sum(k[0] for k in kinds):.2f} ms in {sum(k[1] for k in kinds)} launches")
                for ms, count, kernel, role in kinds[:24]:
                    print(f"{ms:>10.3f} {count:>5} {kernel:<22} {role}", flush=True)
                rlx.close()
                continue
            sides = {"rlx": rlx, "torch": Torch(case, model, args.gpu, threads)}
            if os.path.exists(onnx):
                sides["onnxruntime"] = Onnx(case, onnx, threads)
            result["adapter"] = rlx.adapter
            for side in sides.values():
                side.run(1)
            apart = {k: difference(rlx.output(), s.output()) for k, s in sides.items() if k != "rlx"}
            if max(apart.values()) > (0.05 if args.gpu else 1e-3):
                sys.exit(f"{name}: outputs differ: {apart}")
            ms = turns(sides, args.rounds, args.seconds)
            row = dict(model=name, threads=threads, ms={k: round(t, 3) for k, t in ms.items()},
                       ratio={k: round(t / ms["rlx"], 3) for k, t in ms.items() if k != "rlx"}, apart=apart)
            result["rows"].append(row)
            print(json.dumps(row), flush=True)
            rlx.close()
        shutil.rmtree(folder)
    if args.out:
        json.dump(result, open(args.out, "w"), indent=1)


main()
