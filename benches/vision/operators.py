#!/usr/bin/env python3
"""Times what image networks are made of on a GPU, with nothing but the `rlx` binary and Python's own library.

    python3 benches/vision/operators.py RLX [--device webgpu] [--tflops 66.9] [--gbs 3350] [--only NAME,..] [--rounds 5]

`rlx graph` runs a graph once and reports no times, so each case is two graphs: a chain of few and one of many of
the same operator. Start, upload, pipelines and readback are the same in both; the difference of the shortest wall
times, divided by the difference of the counts, is the time of one. A line has it, the operations and the bytes
that have to move (operands and result once), and the fractions of the limits that are given (default: f32 and
memory of an H100 SXM). Numbers below about 0.2 ms are noise: raise --more.
"""
import argparse, array, os, random, subprocess, sys, tempfile, time

WINDOW = "{{stride = [{s}, {s}], pad_low = [{p}, {p}], pad_high = [{p}, {p}], dilation = [1, 1], groups = {g}}}"


def conv(n, channels, size, kernel, stride=1, pad=0, groups=1, filters=None):
    """A chain of convolutions; each result is seen as an image of the first one's shape again."""
    filters = filters or channels
    out = (size + 2 * pad - kernel) // stride + 1
    x, y = [n, channels, size, size], [n, filters, out, out]
    assert volume(x) == volume(y), "a chain goes on with its result"
    w = [filters, channels // groups, kernel, kernel]

    def step(i, last):
        window = WINDOW.format(s=stride, p=pad, g=groups)
        lines = [f"%c{i} = conv {last}, %w {window}"]
        if x == y:
            return lines, f"%c{i}"
        return lines + [f"%r{i} = mir.reshape %c{i} {{dims = {x}}}"], f"%r{i}"

    flops = 2 * volume(y) * volume(w[1:])
    return dict(inputs=dict(x=x, w=w), step=step, flops=flops, moved=[x, w, y])


def sdpa(n, heads, rows, width, bias=False):
    """A chain of attentions: the result is the next one's queries."""
    x = [n, rows, heads, width]
    inputs = dict(x=x, k=x, v=x)
    if bias:
        inputs["b"] = [n, heads, rows, rows]

    def step(i, last):
        mask, extra = (", %b", ", mask = bias") if bias else ("", "")
        shape = f"{{heads = {heads}, kv_heads = {heads}, head_dim = {width}{extra}}}"
        return [f"%a{i} = mir.sdpa {last}, %k, %v{mask} {shape}"], f"%a{i}"

    moved = [x] * 4 + ([inputs["b"]] if bias else [])
    return dict(inputs=inputs, step=step, flops=4 * n * heads * rows * rows * width, moved=moved)


def linear(rows, width):
    """A chain of square products in f32."""
    x, w = [rows, width], [width, width]
    step = lambda i, last: ([f"%l{i} = linear {last}, %w"], f"%l{i}")
    return dict(inputs=dict(x=x, w=w), step=step, flops=2 * rows * width * width, moved=[x, w, x])


CASES = {
    # Products of encoders: DINOv2-S at 518, ViT-B, SAM, FLUX.2 klein at 1024.
    "linear_1370_384": lambda: linear(1370, 384),
    "linear_197_768": lambda: linear(197, 768),
    "linear_4096_768": lambda: linear(4096, 768),
    "linear_4608_3072": lambda: linear(4608, 3072),
    # SAM's image encoder (ViT-B at 1024): patches, windows of 14x14, whole images, neck.
    "sam_patches_16x16_3_768": lambda: conv(1, 3, 1024, 16, stride=16, filters=768),
    "sam_windows_196": lambda: sdpa(25, 12, 196, 64),
    "sam_windows_196_bias": lambda: sdpa(25, 12, 196, 64, bias=True),
    "sam_global_4096": lambda: sdpa(1, 12, 4096, 64),
    "sam_neck_3x3_256": lambda: conv(1, 256, 64, 3, pad=1),
    "vit_b_197": lambda: sdpa(8, 12, 197, 64),
    "head_128_1024": lambda: sdpa(1, 16, 1024, 128),
    # An image decoder (VAE): its widest layer at each size.
    "vae_3x3_512_at_128": lambda: conv(1, 512, 128, 3, pad=1),
    "vae_3x3_256_at_256": lambda: conv(1, 256, 256, 3, pad=1),
    "vae_1x1_512_at_128": lambda: conv(1, 512, 128, 1),
    "vae_attention_512_at_64": lambda: sdpa(1, 1, 4096, 512),
    # Every channel on its own.
    "depthwise_7x7_384_at_64": lambda: conv(1, 384, 64, 7, pad=3, groups=384),
}


def volume(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def text(case, count):
    """The graph of a chain of `count`; one number of it is read back."""
    lines, last = [], "%x"
    for i in range(count):
        more, last = case["step"](i, last)
        lines += more
    lines += [f"%flat = mir.reshape {last} {{dims = [{volume(case['inputs']['x'])}]}}",
              "%one = mir.slice %flat {axis = 0, start = 0, len = 1, step = 1}"]
    inputs = [f"input %{name} : tensor<{'x'.join(map(str, dims))}xf32>" for name, dims in case["inputs"].items()]
    body = "\n".join("  " + line for line in inputs + lines + ["return y = %one"])
    return f"module @bench {{policy = fusable}} {{\n{body}\n}}\n"


def write_npy(path, dims, scale):
    """Random numbers of about this size; a short pattern repeats, since making many takes Python long."""
    rng, n = random.Random(1), volume(dims)
    pattern = array.array("f", (rng.gauss(0, scale) for _ in range(8191)))
    if sys.byteorder == "big":
        pattern.byteswap()
    shape = "(" + "".join(f"{d}, " for d in dims) + ")"
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        whole, rest = divmod(n, len(pattern))
        for _ in range(whole):
            f.write(pattern.tobytes())
        f.write(pattern[:rest].tobytes())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("rlx")
    p.add_argument("--device", default="webgpu")
    p.add_argument("--tflops", type=float, default=66.9, help="the GPU's limit of f32")
    p.add_argument("--gbs", type=float, default=3350.0, help="the GPU's limit of memory")
    p.add_argument("--only", default="", help="names of cases, by commas")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--few", type=int, default=4)
    p.add_argument("--more", type=int, default=64, help="how many more the long chain has")
    args = p.parse_args()
    only = [name for name in args.only.split(",") if name]
    unknown = [name for name in only if name not in CASES]
    if unknown:
        sys.exit(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    print(f"{'case':<26}{'ms':>9}{'GFLOP':>9}{'MB':>8}{'TFLOP/s':>9}{'of f32':>8}{'of memory':>11}")
    for name in only or CASES:
        case = CASES[name]()
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for key, dims in case["inputs"].items():
                # Results of a chain stay of the size of its first image.
                scale = volume(dims[1:]) ** -0.5 if key == "w" else 1.0
                path = os.path.join(folder, f"{key}.npy")
                write_npy(path, dims, scale)
                given += ["--input", f"{key}={path}"]
            best = {}
            for _ in range(args.rounds):
                for count in (args.few, args.few + args.more):
                    path = os.path.join(folder, f"{count}.hir")
                    with open(path, "w") as f:
                        f.write(text(case, count))
                    command = [args.rlx, "graph", path, "--device", args.device, "--json", *given]
                    begin = time.perf_counter()
                    done = subprocess.run(command, capture_output=True, text=True)
                    seconds = time.perf_counter() - begin
                    if done.returncode:
                        sys.exit(f"{name}: {done.stderr.strip()}")
                    best[count] = min(seconds, best.get(count, seconds))
        seconds = (best[args.few + args.more] - best[args.few]) / args.more
        moved = 4 * sum(map(volume, case["moved"]))
        if seconds <= 0:
            print(f"{name:<26}   below what can be measured: raise --more")
            continue
        tflops = case["flops"] / seconds / 1e12
        print(f"{name:<26}{seconds * 1e3:>9.3f}{case['flops'] / 1e9:>9.2f}{moved / 1e6:>8.1f}{tflops:>9.2f}"
              f"{tflops / args.tflops:>8.1%}{moved / seconds / 1e9 / args.gbs:>11.1%}", flush=True)


if __name__ == "__main__":
    main()
