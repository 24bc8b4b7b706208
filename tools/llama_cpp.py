"""A tokenizer of llama.cpp, through the library that npm's node-llama-cpp brings.

JavaScript strings cannot hold bytes that are no UTF-8, so the library is called directly. Its structure of
parameters is that of the version in benches/convert_llama/package.json; another layout is refused.
"""
import ctypes
import json
import os
import pathlib
import re

VERSION = "v0.5.0"


class Refused(Exception):
    """The library does not load a file, for one because it does not know the pre-tokenizer's name yet."""


class Params(ctypes.Structure):
    """What a model is loaded with, in the library's order."""

    _fields_ = [
        ("devices", ctypes.c_void_p), ("buffer_types", ctypes.c_void_p), ("gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int32), ("load_mode", ctypes.c_int32), ("lazy_mode", ctypes.c_int32),
        ("main_gpu", ctypes.c_int32), ("tensor_split", ctypes.c_void_p), ("progress", ctypes.c_void_p),
        ("progress_data", ctypes.c_void_p), ("overrides", ctypes.c_void_p), ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool), ("extra_buffers", ctypes.c_bool), ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool), ("load_mtp", ctypes.c_bool),
    ]


# Kinds of tokens.
UNKNOWN, CONTROL, USER_DEFINED, TAKES_BLANKS, ALL = 1, 8, 16, 256, -1
PARSED = UNKNOWN | CONTROL | USER_DEFINED
# It reads this as a character beyond the last one, and an exception that nobody catches may end the process.
BEYOND = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Library:
    """`folder`: where `npm install --ignore-scripts` put node-llama-cpp, benches/convert_llama by default."""

    def __init__(self, folder):
        modules = pathlib.Path(folder) / "node_modules"
        described = json.loads((modules / "node-llama-cpp/llama/binariesGithubRelease.json").read_text())
        if described["release"] != VERSION:
            raise SystemExit(f"node-llama-cpp has llama.cpp {described['release']}, and its {VERSION} is asked for")
        binaries = modules / "@node-llama-cpp/linux-x64/bins/linux-x64"
        for name in ("libggml-base.so", f"libggml.{VERSION}.so"):
            ctypes.CDLL(str(binaries / name), ctypes.RTLD_GLOBAL)
        os.environ["GGML_NO_BACKTRACE"] = "1"
        self.c = c = ctypes.CDLL(str(binaries / f"libllama.{VERSION}.so"))
        c.llama_model_default_params.restype = Params
        c.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
        c.llama_model_load_from_file.restype = ctypes.c_void_p
        c.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        c.llama_model_get_vocab.restype = ctypes.c_void_p
        for name in ("llama_vocab_get_attr", "llama_vocab_get_text"):
            getattr(c, name).argtypes = [ctypes.c_void_p, ctypes.c_int32]
        c.llama_vocab_get_text.restype = ctypes.c_char_p
        c.llama_model_meta_val_str.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        c.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]
        flags = [ctypes.c_bool, ctypes.c_bool]
        ids = ctypes.POINTER(ctypes.c_int32)
        c.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ids, ctypes.c_int32, *flags]
        c.llama_detokenize.argtypes = [ctypes.c_void_p, ids, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, *flags]
        self.quiet = LOG(lambda level, text, data: None)
        c.llama_log_set(self.quiet, None)
        c.llama_backend_init()

    def open(self, file):
        params = self.c.llama_model_default_params()
        if (params.gpu_layers, params.vocab_only, params.extra_buffers) != (-1, False, True):
            raise SystemExit("the library's parameters are laid out in another way")
        params.vocab_only = True
        model = self.c.llama_model_load_from_file(str(file).encode(), params)
        if not model:
            raise Refused(file)
        return Vocabulary(self, model)


class Vocabulary:
    def __init__(self, library, model):
        # The library calls back into `quiet`, so that lives as long as this does.
        self.library, self.c, self.model = library, library.c, model
        self.vocab = self.c.llama_model_get_vocab(model)

    def tokens(self, kinds):
        """The ids and texts of the tokens that are of one of these kinds."""
        ids = range(self.c.llama_vocab_n_tokens(self.vocab))
        chosen = [i for i in ids if self.c.llama_vocab_get_attr(self.vocab, i) & kinds]
        return {i: self.c.llama_vocab_get_text(self.vocab, i).decode() for i in chosen}

    def value(self, key):
        """A key of the file's header, as text."""
        text = ctypes.create_string_buffer(64)
        n = self.c.llama_model_meta_val_str(self.model, key.encode(), text, len(text))
        return text.value.decode() if n >= 0 else ""

    def encode(self, text, special):
        """The ids of some bytes, None where they end the process. `special`: control tokens are parsed, and those at the
        ends are added."""
        if BEYOND.search(text) and self.ends_the_process(text, special):
            return None
        return self.ids(text, special)

    def ends_the_process(self, text, special):
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self.ids(text, special)
            os._exit(0)
        return os.waitpid(child, 0)[1] != 0

    def ids(self, text, special):
        room = len(text) + 16
        while True:
            ids = (ctypes.c_int32 * room)()
            n = self.c.llama_tokenize(self.vocab, text, len(text), ids, room, special, special)
            if n >= 0:
                return ids[:n]
            room = -n

    def decode(self, ids):
        """The bytes of some ids; control tokens have none."""
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        room = 16 * len(ids) + 16
        while True:
            text = ctypes.create_string_buffer(room)
            n = self.c.llama_detokenize(self.vocab, tokens, len(ids), text, room, True, False)
            if n >= 0:
                return text.raw[:n]
            room = -n
