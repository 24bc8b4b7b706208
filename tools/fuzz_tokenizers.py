#!/usr/bin/env python3
"""Compares `rlx tokenize` with Hugging Face's tokenizers and with SentencePiece on random strings.

    python3 -m venv venv && venv/bin/pip install tokenizers sentencepiece
    cargo build --release -p rlx-native
    venv/bin/python tools/fuzz_tokenizers.py [--strings 10000] [--seed 1] FILE.tokenizer.json … FILE.model …

Without files it takes those of tests/fixtures/tokenizers. A string is encoded with special tokens parsed and
added, and its ids are decoded again. With a tokenizer.model it is plain text, and ids alone are compared:
SentencePiece has a text for the unknown token. Prints each difference (the first 20 of a file) and a line for
each file; exits with 1 where there were any.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What strings are made of: words, blanks, digits, signs, scripts, marks, emoji, special tokens.
ALPHABETS = [
    "etaoinshrdlu", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " ", "\n\r\t", ".,;:!?'\"()[]{}<>/\\|`~@#$%^&*-_=+",
    "äöüßéèñçøåœÆ", "абвгдежзПРИВ", "αβγδΩΣς", "中文字漢語日本", "かなカナー。、", "한글각ᄀ", "אבגד", "ابتث٣٤", "नमस्ते",
    "\u0301\u0308\u0323\u20e3", "🙂🚀👩\u200d👧🏽", "\u00a0\u2003\u3000\u2028\u0085\u200b\ufeff", "½²①Ⅷ", "ǅʰªº", "\u2581", "ſKÅΩ",
    "\x00\x01\x7f\x9f\ue000\U000e0067\U0010ffff",
]
WORDS = ["the", " the", "don't", "I'LL", "we've", "'s", "'RE", "fn main", "Ġ", "hello", "  ", "    ", "\n\n", "\r\n", "<0x0A>", "<unk>"]


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
    return "".join(parts)


def run(*args, data):
    done = subprocess.run([run.rlx, "tokenize", *args], input=data, stdout=subprocess.PIPE, check=True)
    return done.stdout


def compare_model(file, n, seed):
    import sentencepiece

    truth = sentencepiece.SentencePieceProcessor(model_file=str(file))
    rng = random.Random(seed)
    texts = [string(rng, ["<s>", "</s>"]) for _ in range(n)]

    def one(text):
        want, got = truth.encode(text), json.loads(run(file, "--json", "--no-special", data=text.encode()))
        return None if got == want else ("ids", text, got, want)

    return texts, one


def compare_json(file, n, seed):
    truth = tokenizers.Tokenizer.from_file(str(file))
    truth.no_truncation()
    truth.no_padding()
    described = json.loads(file.read_text())
    added, kind = described["added_tokens"], described["model"]["type"]
    rng = random.Random(seed)
    texts = [string(rng, [t["content"] for t in added]) for _ in range(n)]

    def one(text):
        want = truth.encode(text).ids
        got = json.loads(run(file, "--json", data=text.encode()))
        if got != want:
            return "ids", text, got, want
        if kind != "WordPiece":
            want = truth.decode(want)
            got = run(file, "--decode", data=json.dumps(got).encode()).decode("utf-8", "replace")
            if got != want:
                return "text", text, got, want
        return None

    return texts, one


def compare(file, n, seed):
    texts, one = (compare_model if file.suffix == ".model" else compare_json)(file, n, seed)
    with ThreadPoolExecutor() as pool:
        wrong = [found for found in pool.map(one, texts) if found]
    for found in wrong[:20]:
        print(*map(repr, found), sep="\n  ")
    counts = {what: sum(found[0] == what for found in wrong) for what in ("ids", "text")}
    print(f"{file.name}: {n} strings, {counts['ids']} with other ids, {counts['text']} with other text")
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rlx", default=ROOT / "target/release/rlx", help="the command, if it is elsewhere")
    args = parser.parse_args()
    run.rlx = args.rlx
    files = args.files or sorted((ROOT / "tests/fixtures/tokenizers").glob("*.tokenizer.json"))
    sys.exit(max([compare(file, args.strings, args.seed) for file in files]))


if __name__ == "__main__":
    main()
