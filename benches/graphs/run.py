#!/usr/bin/env python3
"""Times the executors that take graphs (XLA's and MLX's CPU devices) beside RLX's own CPU and mlx-lm, in turns.

    cargo build --release -p rlx-native --bin rlx --example entry
    python3 -m pip install --no-deps --target FOLDER mlx-lm==0.32.2 mlx==0.32.4 mlx-cpu==0.32.4
    python3 benches/graphs/run.py --mlx-lm FOLDER --q8-0 MODEL.gguf [--rounds 5] [--out FILE]

Each side reads a prompt of 256 tokens and decodes 64 behind it; sides take turns within a round, and medians count.
mlx-lm gets the same GGUF file: MLX reads Q8_0 as its own groups of 32, whose numbers are the file's. BERT-base has
random weights (benches/cuda/encoders.py), one text of 128 tokens, in f32. What a side needs before its first answer
(reading, compiling) is stated too.
"""
import argparse, importlib.util, json, os, pathlib, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from record import ROOT, run_of, save

PROMPT, TOKENS = 256, 64


class Rlx:
    """`rlx bench --turns`, one for prompts and one for decode, whose caches have a prompt already."""

    def __init__(self, args, device):
        self.turns, self.first = {}, {}
        for what, depth in (("prefill", 0), ("decode", PROMPT)):
            command = [args.rlx, "bench", "--turns", "--model", args.q8_0, "--device", device, "--context", 1024,
                       "--prompt-tokens", PROMPT, "--tokens", TOKENS, "--depth", depth]
            if device == "xla-cpu":
                command += ["--plugin", args.plugin]
            begin = time.perf_counter()
            self.turns[what] = subprocess.Popen([str(x) for x in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=args.env)
            self.turns[what].stdout.readline()
            self.ask(what)
            self.first[what] = time.perf_counter() - begin

    def ask(self, what):
        turns = self.turns[what]
        turns.stdin.write(what + "\n")
        turns.stdin.flush()
        line = turns.stdout.readline() or sys.exit(f"rlx bench ended with {turns.wait()}")
        return json.loads(line)["seconds"]

    def end(self):
        for turns in self.turns.values():
            turns.kill()


class MlxLm:
    """mlx-lm's model and its own loop (`generate_step`) over a GGUF file's weights."""

    def __init__(self, args, model):
        begin = time.perf_counter()
        sys.path.insert(0, args.mlx_lm)
        import mlx.core as mx
        import mlx.nn as nn
        from mlx_lm.generate import generate_step
        from mlx_lm.models import cache, llama

        weights, meta = mx.load(str(model), return_metadata=True)
        get = lambda key: meta["llama." + key].item()
        net = llama.Model(llama.ModelArgs(
            model_type="llama", hidden_size=get("embedding_length"), num_hidden_layers=get("block_count"),
            intermediate_size=get("feed_forward_length"), num_attention_heads=get("attention.head_count"),
            num_key_value_heads=get("attention.head_count_kv"), rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
            vocab_size=get("vocab_size"), rope_theta=get("rope.freq_base"), rope_traditional=True,
            tie_word_embeddings="output.weight" not in weights))
        nn.quantize(net, group_size=32, bits=8)
        names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
                 "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
                 "ffn_norm": "post_attention_layernorm"}
        own = []
        for name, x in weights.items():
            parts = name.split(".")
            if parts[0] == "blk":
                own.append((f"model.layers.{parts[1]}.{names[parts[2]]}.{parts[3]}", x))
            else:
                top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[parts[0]]
                own.append((f"{top}.{parts[1]}", x))
        net.load_weights(own, strict=True)
        mx.eval(net.parameters())
        self.mx, self.net, self.cache, self.step = mx, net, cache, generate_step
        self.first = {}
        for what in ("prefill", "decode"):
            self.ask(what)
            self.first[what] = time.perf_counter() - begin

    def ask(self, what):
        """The prompt's seconds, or those of its later tokens."""
        tokens = self.mx.array([(7 * i + 3) % 8000 for i in range(PROMPT)])
        begin = time.perf_counter()
        for n, _ in enumerate(self.step(tokens, self.net, max_tokens=TOKENS + 1)):
            if n == 0:
                first = time.perf_counter() - begin
                if what == "prefill":
                    return first
        return time.perf_counter() - begin - first


def language(args):
    sides = {"rlx cpu": lambda: Rlx(args, "cpu"), "rlx xla-cpu": lambda: Rlx(args, "xla-cpu"),
             "rlx mlx": lambda: Rlx(args, "mlx"), "mlx-lm": lambda: MlxLm(args, args.q8_0)}
    sides = {key: make() for key, make in sides.items() if not args.sides or key in args.sides.split(",")}
    times = {key: {"prefill": [], "decode": []} for key in sides}
    for r in range(args.rounds):
        for key in list(sides)[r % len(sides):] + list(sides)[: r % len(sides)]:
            for what in ("prefill", "decode"):
                times[key][what].append(sides[key].ask(what))
    line = {"model": args.q8_0.name, "prompt": PROMPT, "tokens": TOKENS, "sides": {}}
    for key, side in sides.items():
        found = {what: statistics.median(t) for what, t in times[key].items()}
        line["sides"][key] = {"prompt tokens a second": round(PROMPT / found["prefill"], 1), "tokens a second": round(TOKENS / found["decode"], 1),
                              "seconds to the first prompt": round(side.first["prefill"], 2), "seconds to the first decode": round(side.first["decode"], 2)}
        if isinstance(side, Rlx):
            side.end()
    print(json.dumps(line), flush=True)
    return line


def bert(args):
    spec = importlib.util.spec_from_file_location("encoders", ROOT / "benches" / "cuda" / "encoders.py")
    encoders = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encoders)
    import numpy as np
    import torch

    model = encoders.Bert().eval()
    given, more = model.inputs(1)
    with tempfile.TemporaryDirectory() as folder:
        encoders.write_model(folder, model)
        for name, x in (given | more).items():
            np.save(os.path.join(folder, name + ".npy"), x)
        sides, first, times, outs = {}, {}, {}, {}
        for device in ("cpu", "xla-cpu", "mlx"):
            begin = time.perf_counter()
            env = args.env | {"PJRT_PLUGIN": str(args.plugin)}
            p = subprocess.Popen([args.entry, folder, device, str(os.cpu_count()), "f32"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
            p.stdout.readline()
            sides[device], times[device] = p, []

            def ask(runs, p=p):
                p.stdin.write(f"{model.entry} {runs} {folder}\n")
                p.stdin.flush()
                return [float(x) for x in p.stdout.readline().split()]

            ask(1)
            first[device] = time.perf_counter() - begin
            outs[device] = np.load(os.path.join(folder, "out", model.output + ".npy"))
            sides[device] = ask
        with torch.inference_mode():
            exact = model.bfloat16().float()(**{k: torch.from_numpy(x) for k, x in given.items()}).numpy()
        for r in range(args.rounds):
            for device in list(sides)[r % 3:] + list(sides)[: r % 3]:
                times[device].append(statistics.median(sides[device](3)))
    line = {"model": "BERT-base, random weights", "tokens": 128, "batch": 1, "sides": {
        f"rlx {d}": {"ms": round(statistics.median(t), 2), "seconds to the first answer": round(first[d], 2),
                     "mean difference from PyTorch": float(np.abs(outs[d].reshape(exact.shape) - exact).mean() / np.abs(exact).mean())} for d, t in times.items()}}
    print(json.dumps(line), flush=True)
    return line


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--q8-0", type=pathlib.Path, default=ROOT.parent / "shared" / "models" / "rustdoc-29m" / "rustdoc-29m-q8_0.gguf")
    args.add_argument("--mlx-lm", required=True, help="the folder with mlx_lm and mlx")
    args.add_argument("--mlx-folder", help="RLX_MLX; default: where RLX looks")
    args.add_argument("--rlx", default=ROOT / "target" / "release" / "rlx")
    args.add_argument("--entry", default=ROOT / "target" / "release" / "examples" / "entry")
    args.add_argument("--plugin", default=ROOT / "target" / "plugins" / "xla_cpu_pjrt.so")
    args.add_argument("--sides", help="only these sides, with commas between")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--out", type=pathlib.Path)
    args = args.parse_args()
    args.env = {**os.environ} | ({"RLX_MLX": args.mlx_folder} if args.mlx_folder else {})
    results = [bert(args)] if args.sides == "bert" else [language(args), bert(args)]
    if args.out:
        save(args.out, {"run": run_of(rounds=args.rounds), "results": results})


main()
