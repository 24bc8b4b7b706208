#!/usr/bin/env python3
"""Times encoders of random weights on RLX's CPU executor and on onnxruntime, in turns.

    pip install numpy onnx onnxruntime
    cargo build --release -p rlx-native --example entry
    python3 benches/encoders/run.py [--models minilm,bert] [--rounds 7] [--out benches/results/DATE-encoders.json]
    python3 benches/encoders/run.py --export FOLDER    # only writes the models, for wasm.mjs

Both get the same f32 weights, the same ids and a mask of ones, and return rows and the mean vector. Each round
runs one side, then the other; a round's time is its best run, the result is the median of the rounds.
onnxruntime gets a graph of standard operators with all its optimisations on (its transformer optimiser fuses
attention, norms and GELU where --fuse is given).
"""
import argparse, json, os, platform, statistics, subprocess, sys, tempfile, time
import numpy as np

SIZES = {
    "minilm": dict(layers=6, dim=384, ffn=1536, heads=12),
    "bert": dict(layers=12, dim=768, ffn=3072, heads=12),
}
VOCAB, POSITIONS = 30522, 512


def weights(size, rng):
    d, f = size["dim"], size["ffn"]
    t = {}

    def matrix(name, rows, columns):
        t[name] = (rng.standard_normal((rows, columns), dtype=np.float32) * 0.02)

    matrix("embeddings.word_embeddings.weight", VOCAB, d)
    matrix("embeddings.position_embeddings.weight", POSITIONS, d)
    matrix("embeddings.token_type_embeddings.weight", 2, d)

    def norm(name):
        t[f"{name}.weight"] = np.ones(d, np.float32)
        t[f"{name}.bias"] = np.zeros(d, np.float32)

    def linear(name, rows, columns):
        matrix(f"{name}.weight", rows, columns)
        t[f"{name}.bias"] = rng.standard_normal(rows, dtype=np.float32) * 0.02

    norm("embeddings.LayerNorm")
    for i in range(size["layers"]):
        p = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            linear(f"{p}.attention.self.{part}", d, d)
        linear(f"{p}.attention.output.dense", d, d)
        norm(f"{p}.attention.output.LayerNorm")
        linear(f"{p}.intermediate.dense", f, d)
        linear(f"{p}.output.dense", d, f)
        norm(f"{p}.output.LayerNorm")
    return t


def write_folder(path, size, t):
    config = dict(model_type="bert", architectures=["BertModel"], hidden_size=size["dim"], intermediate_size=size["ffn"],
                  num_hidden_layers=size["layers"], num_attention_heads=size["heads"], vocab_size=VOCAB,
                  max_position_embeddings=POSITIONS, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu")
    json.dump(config, open(os.path.join(path, "config.json"), "w"))
    header, at = {}, 0
    for name, x in t.items():
        header[name] = dict(dtype="F32", shape=list(x.shape), data_offsets=[at, at + x.nbytes])
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for x in t.values():
            f.write(x.tobytes())


def onnx_model(size, t):
    from onnx import TensorProto, helper, numpy_helper
    nodes, inits = [], []
    d, heads = size["dim"], size["heads"]
    count = [0]

    def const(x, name=None):
        name = name or f"c{len(inits)}"
        inits.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def op(kind, *inputs, **attrs):
        count[0] += 1
        out = f"v{count[0]}"
        nodes.append(helper.make_node(kind, list(inputs), [out], name=f"{kind}_{count[0]}", **attrs))
        return out

    def norm(x, name):
        return op("LayerNormalization", x, const(t[f"{name}.weight"]), const(t[f"{name}.bias"]), axis=-1, epsilon=1e-12)

    def linear(x, name):
        product = op("MatMul", x, const(np.ascontiguousarray(t[f"{name}.weight"].T)))
        return op("Add", const(t[f"{name}.bias"]), product)

    seq = op("Gather", op("Shape", "input_ids"), const(np.int64(1)), axis=0)
    words = op("Gather", const(t["embeddings.word_embeddings.weight"]), "input_ids", axis=0)
    types = op("Gather", const(t["embeddings.token_type_embeddings.weight"]), "token_type_ids", axis=0)
    ends = op("Unsqueeze", seq, const(np.array([0], np.int64)))
    positions = op("Slice", const(t["embeddings.position_embeddings.weight"]), const(np.array([0], np.int64)), ends, const(np.array([0], np.int64)))
    x = norm(op("Add", op("Add", words, types), positions), "embeddings.LayerNorm")
    mask = op("Cast", "attention_mask", to=TensorProto.FLOAT)
    wide = op("Unsqueeze", op("Unsqueeze", mask, const(np.array([1], np.int64))), const(np.array([2], np.int64)))
    bias = op("Mul", op("Sub", const(np.float32(1)), wide), const(np.float32(-3.4028234663852886e38)))
    split = const(np.array([0, 0, heads, d // heads], np.int64))
    joined = const(np.array([0, 0, d], np.int64))
    scale = const(np.float32((d // heads) ** 0.5))
    for i in range(size["layers"]):
        p = f"encoder.layer.{i}"

        def head(part, perm):
            return op("Transpose", op("Reshape", linear(x, f"{p}.attention.self.{part}"), split), perm=perm)

        q, v = head("query", [0, 2, 1, 3]), head("value", [0, 2, 1, 3])
        k = head("key", [0, 2, 3, 1])
        scores = op("Softmax", op("Add", op("Div", op("MatMul", q, k), scale), bias), axis=-1)
        rows = op("Reshape", op("Transpose", op("MatMul", scores, v), perm=[0, 2, 1, 3]), joined)
        x = norm(op("Add", linear(rows, f"{p}.attention.output.dense"), x), f"{p}.attention.output.LayerNorm")
        h = linear(x, f"{p}.intermediate.dense")
        half = op("Div", h, const(np.float32(2 ** 0.5)))
        h = op("Mul", op("Mul", h, op("Add", op("Erf", half), const(np.float32(1)))), const(np.float32(0.5)))
        x = norm(op("Add", linear(h, f"{p}.output.dense"), x), f"{p}.output.LayerNorm")
    last = op("Unsqueeze", mask, const(np.array([2], np.int64)))
    total = op("ReduceSum", op("Mul", x, last), const(np.array([1], np.int64)), keepdims=0)
    mean = op("Div", total, op("ReduceSum", mask, const(np.array([1], np.int64)), keepdims=1))
    nodes.append(helper.make_node("Identity", [x], ["hidden"]))
    nodes.append(helper.make_node("Identity", [mean], ["embedding"]))
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in ("input_ids", "token_type_ids", "attention_mask")]
    outs = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["b", "s", d]),
            helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["b", d])]
    graph = helper.make_graph(nodes, "bert", ids, outs, inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Ort:
    def __init__(self, model, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, batch, seq, runs):
        ids = (np.arange(batch * seq, dtype=np.int64) * 7919 % VOCAB).reshape(batch, seq)
        feeds = dict(input_ids=ids, token_type_ids=np.zeros_like(ids), attention_mask=np.ones_like(ids))
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.out = self.session.run(["hidden", "embedding"], feeds)
            times.append((time.perf_counter() - begin) * 1e3)
        return times


class Rlx:
    def __init__(self, binary, folder, threads):
        self.folder = folder
        self.p = subprocess.Popen([binary, folder, "cpu", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.adapter = self.p.stdout.readline().strip()

    def run(self, batch, seq, runs):
        given = os.path.join(self.folder, f"{batch}x{seq}")
        if not os.path.exists(given):
            os.mkdir(given)
            ids = (np.arange(batch * seq, dtype=np.int64) * 7919 % VOCAB).reshape(batch, seq)
            for name, x in dict(input_ids=ids, token_type_ids=np.zeros_like(ids), attention_mask=np.ones_like(ids)).items():
                np.save(os.path.join(given, f"{name}.npy"), x)
        self.p.stdin.write(f"encode {runs} {given}\n")
        self.p.stdin.flush()
        return [float(x) for x in self.p.stdout.readline().split()]

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--models", default="minilm,bert")
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--binary", default="target/release/examples/entry")
    a.add_argument("--out")
    a.add_argument("--export")
    a = a.parse_args()
    if a.export:
        for name in a.models.split(","):
            folder = os.path.join(a.export, name)
            os.makedirs(folder, exist_ok=True)
            t = weights(SIZES[name], np.random.default_rng(5))
            write_folder(folder, SIZES[name], t)
            with open(os.path.join(folder, "model.onnx"), "wb") as f:
                f.write(onnx_model(SIZES[name], t).SerializeToString())
        return
    import onnxruntime
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    result = dict(date=time.strftime("%Y-%m-%d"), commit=commit, cpu=cpu[0] if cpu else platform.processor(),
                  cores=os.cpu_count(), onnxruntime=onnxruntime.__version__, rounds=a.rounds, rows=[])
    for name in a.models.split(","):
        size = SIZES[name]
        t = weights(size, np.random.default_rng(5))
        with tempfile.TemporaryDirectory() as folder:
            write_folder(folder, size, t)
            model = onnx_model(size, t)
            for threads in (1, 2):
                rlx, ort = Rlx(a.binary, folder, threads), Ort(model, threads)
                result["adapter"] = rlx.adapter.split(",")[0]
                for batch in (1, 16):
                    for seq in (16, 128, 512):
                        if name == "bert" and batch * seq > 4096:
                            runs, rounds = 1, 3
                        else:
                            runs = max(1, min(20, int(4000 / (batch * seq * (1 if name == "minilm" else 6)) + 1)))
                            rounds = a.rounds
                        for side in (rlx, ort):
                            side.run(batch, seq, 2)
                        times = {"rlx": [], "ort": []}
                        for i in range(rounds):
                            order = [("rlx", rlx), ("ort", ort)]
                            for key, side in order if i % 2 == 0 else order[::-1]:
                                times[key].append(min(side.run(batch, seq, runs)))
                        r, o = (statistics.median(times[k]) for k in ("rlx", "ort"))
                        row = dict(model=name, threads=threads, batch=batch, tokens=seq, rlx_ms=round(r, 3), ort_ms=round(o, 3), ratio=round(o / r, 3))
                        result["rows"].append(row)
                        print(row, flush=True)
                rlx.close()
    if a.out:
        json.dump(result, open(a.out, "w"), indent=1)


main()
