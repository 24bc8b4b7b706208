#!/usr/bin/env python3
"""Compares `rlx tokenize` with Hugging Face's tokenizers, SentencePiece and llama.cpp on random strings.

    python3.13 -m venv venv && venv/bin/pip install tokenizers sentencepiece unicodedata2
    (cd benches/convert_llama && npm install --ignore-scripts)
    cargo build --release -p rlx-native
    venv/bin/python tools/fuzz_tokenizers.py [--strings 10000] [--seed 1] [--out FILE.json] FILE …

A FILE is a tokenizer.json, a tokenizer.model or a GGUF file, and names its peer; without files it takes those of
tests/fixtures/tokenizers. `--pretokenizers` adds a file of byte-level BPE for each pre-tokenizer that llama.cpp names.
Each string is encoded as a document (special tokens parsed, and those at its ends added) and as plain text, its ids are
decoded again, and as many texts that are no UTF-8 are encoded in both ways. A peer that knows less is asked less:
tools/tokenizer_peers.py says so, and has what is known to be the peer's own; that has to be the whole difference. Prints
the other differences (the first 5 of a kind) and a line for each file; exits with 1 where there were any.
"""
import argparse
import collections
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benches"))

import llama_cpp
import record
import tokenizer_peers

FIXTURES = ROOT / "tests/fixtures/tokenizers"
DIFFERENT = "different"
# What strings are made of: words, blanks, digits, signs, scripts, marks, emoji, special tokens.
ALPHABETS = [
    "etaoinshrdlu", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " ", "\n\r\t", ".,;:!?'\"()[]{}<>/\\|`~@#$%^&*-_=+",
    "äöüßéèñçøåœÆ", "абвгдежзПРИВ", "αβγδΩΣς", "中文字漢語日本", "かなカナー。、", "한글각ᄀ", "אבגד", "ابتث٣٤", "नमस्ते",
    "กขคำใๆ", "ქართული", "հայերեն", "አማርኛ", "தமிழ்", "ပါဝင်", "ខ្មែរ", "བོད་", "ᏣᎳᎩ", "𐌰𐌱𝒜𝔟𠀀",
    "\u0301\u0308\u0323\u20e3", "🙂🚀👩\u200d👧🏽", "🇩🇪🇯🇵1\ufe0f\u20e3", "\u00a0\u2003\u3000\u2028\u0085\u200b\ufeff", "½²①Ⅷ", "ǅʰªº",
    "\u2581", "ſKÅΩ", "\x01\x7f\x9f\ue000\U000e0067\U0010ffff", "\u202e\u2066\u061c\u00ad\ufffd",
]
WORDS = [
    "the", " the", "don't", "I'LL", "we've", "'s", "'RE", "fn main", "Ġ", "hello", "  ", "    ", "\n\n", "\r\n", "<0x0A>", "<unk>",
    " " * 17, "\t\t\t", "\n" * 5, " \n \n", "for (int i = 0; i < n; ++i) {", "self.x += 1\n        ", "</div>", "0x1F", "3.14e-10", "1234567",
]
# No UTF-8: too long a form, surrogates, beyond the last character, bytes that never stand in it, halves of characters.
ILL_FORMED = [
    b"\xc0\x80", b"\xe0\x80\xaf", b"\xf0\x80\x80\x80", b"\xed\xa0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80", b"\xfe", b"\xff", b"\x80", b"\xbf\xbf", b"\xc3", b"\xe4\xb8", b"\xf0\x9f", b"\xf0\x9f\x99",
]


def string(rng, specials):
    parts = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(10)
        if kind == 0 and specials:
            parts.append(rng.choice(specials))
        elif kind < 3:
            parts.append(rng.choice(WORDS))
        elif kind == 3:
            c = rng.randrange(0x110000)
            parts.append("x" if 0xD800 <= c < 0xE000 else chr(c))
        else:
            alphabet = rng.choice(ALPHABETS)
            parts.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 8))))
    # Seldom: where a zero byte is no end, a text takes a process.
    if rng.randrange(100) == 0:
        parts.insert(rng.randrange(len(parts)), "\0")
    return "".join(parts)


def ill_formed(rng, specials):
    """A text with what is no UTF-8 put in anywhere, within a character or a special token too."""
    while True:
        text = bytearray(string(rng, specials).encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                del text[at:]
            elif kind == 1:
                text[at:at] = rng.randbytes(rng.randrange(1, 5))
            else:
                text[at:at] = rng.choice(ILL_FORMED)
        try:
            text.decode()
        except UnicodeDecodeError:
            return bytes(text)


class Rlx:
    """What `rlx tokenize` makes of texts, for a file."""

    def __init__(self, command, file):
        self.command = [command, "tokenize", file]

    def run(self, args, data):
        return subprocess.run([*self.command, *args], input=data, stdout=subprocess.PIPE, check=True).stdout

    def refuses(self):
        """Whether the file has a tokenizer that RLX says it lacks."""
        done = subprocess.run(self.command, input=b"", capture_output=True)
        if done.returncode and b" is not supported" not in done.stderr:
            raise SystemExit(done.stderr.decode())
        return done.returncode != 0

    def each(self, args, texts, inputs, end):
        """What is printed for each input. A zero byte ends a text, so where a text has one its input goes alone."""
        zero = [b"\0" in text for text in texts]
        many = self.run([*args, "--null"], b"".join(data + end for data, alone in zip(inputs, zero) if not alone))
        many = iter(many.split(b"\n" if end == b"\0" else b"\0"))
        with ThreadPoolExecutor() as pool:
            alone = pool.map(lambda data: self.run(args, data), [data for data, alone in zip(inputs, zero) if alone])
            return [next(alone if apart else many) for apart in zero]

    def encode(self, texts, special):
        args = ["--json"] if special else ["--json", "--no-special"]
        return [json.loads(ids) for ids in self.each(args, texts, texts, b"\0")]

    def decode(self, texts, lists):
        return self.each(["--decode"], texts, [json.dumps(ids).encode() for ids in lists], b"\n")


def explain(rlx, peer, wrong, special):
    """Why ids differ, as far as that is known and is the whole difference: counts of reasons, and the other differences."""
    changes, counts = peer.changes(special), collections.Counter()
    for chosen in (chosen for n in range(len(changes) + 1) for chosen in itertools.combinations(changes, n)):
        name = " and ".join(change[0] for change in chosen) or "no UTF-8 is read in another way"
        given = [text.decode("utf-8", "replace") for text, _, _ in wrong]
        for_peer, for_rlx, alike = given, given, []
        for _, undo, make, fold in chosen:
            for_peer, for_rlx = [*map(undo, for_peer)], [*map(make, for_rlx)]
            alike.append(fold)
        left = []
        got = rlx.encode([text.encode() for text in for_rlx], special)
        for found, text, ids in zip(wrong, for_peer, got):
            both = ids, peer.encode(text.encode(), special)
            for fold in alike:
                both = [*map(fold, both)]
            if both[0] == both[1]:
                counts["ends the process" if found[2] is None else name] += 1
            else:
                left.append(found)
        wrong = left
    return counts, wrong


def compare(file, rlx, peer, n, seed):
    """A row of counts, and the differences that no reason explains."""
    rng = random.Random(seed)
    texts = [string(rng, peer.specials).encode() for _ in range(n)]
    broken = [ill_formed(rng, peer.specials) for _ in range(n)]
    row, unexplained = {"file": file.name, "peer": peer.name}, []

    def note(what, counts, wrong):
        row[what] = dict(counts, **{DIFFERENT: len(wrong)} if wrong else {})
        unexplained.extend((what, *found) for found in wrong)

    for special, name in ((True, "documents"), (False, "plain")):
        if special not in peer.modes:
            continue
        for inputs, what in ((texts, name), (broken, f"{name}, no UTF-8")):
            got = rlx.encode(inputs, special)
            rows = [(text, ours, peer.encode(text, special)) for text, ours in zip(inputs, got)]
            wrong = [row for row in rows if row[1] != row[2]]
            counts, left = explain(rlx, peer, wrong, special)
            note(what, {"equal": n - len(wrong), **counts}, left)
            if special and inputs is texts and peer.decodes:
                counts, left = collections.Counter(), []
                for ids, ours in zip(got, rlx.decode(inputs, got)):
                    theirs = peer.decode(ids)
                    known = (why for why, change in [("equal", bytes), *peer.decoded] if change(ours) == theirs)
                    why = next(known, None)
                    if why:
                        counts[why] += 1
                    else:
                        left.append((ids, ours, theirs))
                note("decoded", counts, left)
    return row, unexplained


def vocabulary_of_pairs(path, pre):
    """A GGUF file of byte-level BPE in which any two bytes on both sides of a character's end merge, so that ids show
    where a pre-tokenizer cuts. `pre` names it."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printed}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in printed)}
    ends, begins = [*range(0xC0)], [*range(0x80), *range(0xC2, 0xF5)]
    merges = [f"{letters[end]} {letters[begin]}" for end in ends for begin in begins]
    random.Random(0).shuffle(merges)
    tokens = [*letters.values(), *(merge.replace(" ", "") for merge in merges), "<s>"]
    text, u32 = (lambda text: struct.pack("<Q", len(text.encode())) + text.encode()), (lambda n: struct.pack("<I", n))
    # A type before each value: 4 is a number, 5 one with a sign, 8 a text, 9 an array of a type.
    texts = lambda list: u32(9) + u32(8) + struct.pack("<Q", len(list)) + b"".join(map(text, list))
    header = {
        "general.architecture": u32(8) + text("llama"),
        "tokenizer.ggml.model": u32(8) + text("gpt2"),
        "tokenizer.ggml.pre": u32(8) + text(pre),
        "tokenizer.ggml.tokens": texts(tokens),
        "tokenizer.ggml.token_type": u32(9) + u32(5) + struct.pack(f"<Q{len(tokens)}i", len(tokens), *[1] * (len(tokens) - 1), 3),
        "tokenizer.ggml.merges": texts(merges),
        "tokenizer.ggml.bos_token_id": u32(4) + u32(len(tokens) - 1),
        "tokenizer.ggml.eos_token_id": u32(4) + u32(len(tokens) - 1),
    }
    pairs = b"".join(text(key) + value for key, value in header.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(header)) + pairs)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--pretokenizers", action="store_true", help="also a file for each pre-tokenizer that llama.cpp names")
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rlx", default=ROOT / "target/release/rlx", help="the command, if it is elsewhere")
    parser.add_argument("--llama-cpp", default=ROOT / "benches/convert_llama", help="the folder with node-llama-cpp, if it is elsewhere")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the rows, as JSON")
    args = parser.parse_args()
    files = args.files or [path for kind in ("*.tokenizer.json", "*.gguf") for path in sorted(FIXTURES.glob(kind))]
    with tempfile.TemporaryDirectory() as scratch:
        if args.pretokenizers:
            lists = json.loads((FIXTURES / "pretokenizers.json").read_text())["pretokenizers"]
            names = [name for entry in lists for name in entry["names"]]
            files += [vocabulary_of_pairs(pathlib.Path(scratch) / f"{name}.gguf", name) for name in names]
        rows = []
        for file in files:
            rlx = Rlx(args.rlx, file)
            row, wrong = {"file": file.name, "refused_by": "rlx"}, []
            if not rlx.refuses():
                try:
                    peer = tokenizer_peers.of(file, args.llama_cpp)
                    row, wrong = compare(file, rlx, peer, args.strings, args.seed)
                except llama_cpp.Refused:
                    row["refused_by"] = "llama.cpp"
            shown = collections.Counter()
            for what, *found in wrong:
                shown[what] += 1
                if shown[what] <= 5:
                    print(what, *map(repr, found), sep="\n  ")
            print(json.dumps(row))
            rows.append(row)
    if args.out:
        about = json.dumps(record.run_of(strings=args.strings, seed=args.seed, llama_cpp=llama_cpp.VERSION), indent=1)
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        args.out.write_text(f'{about[:-2]},\n "rows": [\n{lines}\n ]\n}}\n')
    sys.exit(any(DIFFERENT in counts for row in rows for counts in row.values() if isinstance(counts, dict)))


if __name__ == "__main__":
    main()
