"""llama.cpp, measured one turn at a time: the counterpart of `rlx bench --turns`.

Reads lines `prefill` and `decode` on stdin and answers each with its seconds, as JSON. Only
`llama_decode` is timed: no tokenizer, no sampling. Contexts with flash attention on and off are
both tried first, and each measurement uses what was faster for it.
"""

import argparse
import ctypes
import json
import resource
import sys
import time

import llama_cpp as lib

KV = {"f32": 0, "f16": 1, "q8_0": 8}  # ggml's ids
BATCH = 512
# Flash attention is chosen at this depth at most: trying both at 4,096 would double the prefill.
TRIAL_DEPTH = 1024
TRIAL_TOKENS = 16


class Context:
    def __init__(self, model, args, flash):
        params = lib.llama_context_default_params()
        params.n_ctx = args.depth + args.prompt_tokens + args.tokens
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = args.threads
        params.flash_attn_type = int(flash)
        params.type_k = params.type_v = KV[args.kv]
        params.offload_kqv = params.op_offload = False
        params.no_perf = True
        self.flash = flash
        self.handle = lib.llama_init_from_model(model, params)
        if not self.handle:
            sys.exit("llama.cpp made no context")
        self.memory = lib.llama_get_memory(self.handle)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self.turn = 0

    def feed(self, tokens):
        """Runs tokens after what the cache holds, in batches; the last one's logits are computed."""
        if not tokens:
            return
        for at in range(0, len(tokens), BATCH):
            part = tokens[at : at + BATCH]
            array = (lib.llama_token * len(part))(*part)
            if lib.llama_decode(self.handle, lib.llama_batch_get_one(array, len(part))) != 0:
                sys.exit("llama_decode failed")
        lib.llama_get_logits_ith(self.handle, -1)  # waits for the result

    def hold(self, depth):
        """Forgets what the cache holds after the first `depth` tokens."""
        if not lib.llama_memory_seq_rm(self.memory, 0, depth, -1):
            sys.exit("llama.cpp keeps no part of a sequence")

    def fill(self, depth):
        lib.llama_memory_clear(self.memory, True)
        self.feed([i % self.vocab for i in range(depth)])

    def prefill(self, depth, n):
        self.hold(depth)
        self.turn += 1
        tokens = [(self.turn + 7 * i) % self.vocab for i in range(n)]
        start = time.perf_counter()
        self.feed(tokens)
        return time.perf_counter() - start

    def decode(self, depth, n):
        """`n` steps that begin one token after the depth, as in RLX's bench."""
        self.hold(depth)
        self.turn += 1
        self.feed([self.turn % self.vocab])
        ones = [(lib.llama_token * 1)((self.turn + 7 * i) % self.vocab) for i in range(n)]
        start = time.perf_counter()
        for one in ones:
            if lib.llama_decode(self.handle, lib.llama_batch_get_one(one, 1)) != 0:
                sys.exit("llama_decode failed")
            lib.llama_get_logits_ith(self.handle, -1)
        return time.perf_counter() - start


@lib.llama_log_callback
def log(level, text, _data):
    if level == 4:
        sys.stderr.write(text.decode(errors="replace"))


def rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(**values):
    print(json.dumps(values), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--kv", choices=KV, required=True)
    parser.add_argument("--prompt-tokens", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--depth", type=int, default=0)
    args = parser.parse_args()

    lib.llama_log_set(log, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.load_mode = lib.LLAMA_LOAD_MODE_MMAP
    params.use_extra_bufts = True  # weights repacked for the CPU's matrix kernels
    model = lib.llama_model_load_from_file(args.model.encode(), params)
    if not model:
        sys.exit(f"llama.cpp does not load {args.model}")

    # Values in blocks need flash attention.
    ways = (True,) if args.kv == "q8_0" else (True, False)
    contexts = [Context(model, args, flash) for flash in ways]
    trial = min(args.depth, TRIAL_DEPTH)
    tried = {}
    for context in contexts:
        context.fill(trial)
        decode = min(context.decode(trial, min(args.tokens, TRIAL_TOKENS)) for _ in range(3))
        prefill = min(context.prefill(trial, args.prompt_tokens) for _ in range(2))
        tried[context.flash] = {"prefill": prefill, "decode": decode}
    fastest = {
        what: min(contexts, key=lambda context: tried[context.flash][what])
        for what in ("prefill", "decode")
    }
    # A prompt of one token is not measured, so only decoding needs the depth then.
    needed = fastest.values() if args.prompt_tokens > 1 else [fastest["decode"]]
    for context in contexts:
        if context not in needed:
            lib.llama_free(context.handle)
        elif trial != args.depth:
            context.fill(args.depth)
    say(
        ready=True,
        system=lib.llama_print_system_info().decode().strip(),
        version=lib.__version__,
        flash={what: context.flash for what, context in fastest.items()},
        trial_seconds={f"flash_{flash}".lower(): seconds for flash, seconds in tried.items()},
        peak_rss_bytes=rss(),
    )
    for line in sys.stdin:
        what = line.strip()
        if what == "prefill":
            seconds = fastest[what].prefill(args.depth, args.prompt_tokens)
        elif what == "decode":
            seconds = fastest[what].decode(args.depth, args.tokens)
        else:
            sys.exit(f"{what!r} is no turn")
        say(seconds=seconds, peak_rss_bytes=rss())


if __name__ == "__main__":
    main()
