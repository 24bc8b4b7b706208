"""The tokenizers that tools/fuzz_tokenizers.py compares with, and how each is known to differ.

A peer has `modes` (True: a text as a document, with special tokens; False: as plain text), `encode`, and `decode` where
it `decodes`. Where a peer is known to read texts in another way it has `changes` of a mode: each a name, what undoes the
difference in a text for the peer, what makes it in a text for RLX, and what makes ids of both alike. `decoded` is the
same of decoded bytes: what the peer makes of RLX's.
"""
import functools
import json
import re
import unicodedata

import unicodedata2

import llama_cpp

BLANKS = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def same(it):
    return it


def without_newer(text, than=unicodedata):
    """Characters that a peer has no category of, as U+FFFD. The tables of llama.cpp are of Unicode 15.1, as Python 3.13's
    are; those of RLX and of unicodedata2 are of 18."""
    newer = (than.category(c) == "Cn" != unicodedata2.category(c) for c in text)
    return "".join("\ufffd" if new else c for c, new in zip(text, newer))


def one_of(texts):
    return "|".join(map(re.escape, texts)) or "(?!)"


class HuggingFace:
    """It takes no bytes, so what is no UTF-8 is given as Python replaces it."""

    name = "tokenizers"
    modes = (True, False)
    decoded = []

    def __init__(self, file):
        import tokenizers

        self.documents, self.plain = (tokenizers.Tokenizer.from_file(str(file)) for _ in range(2))
        for tokenizer in (self.documents, self.plain):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self.plain.encode_special_tokens = True
        described = json.loads(file.read_text())
        self.specials = [token["content"] for token in described["added_tokens"]]
        self.kind = described["model"]["type"]
        self.decodes = self.kind != "WordPiece"
        if self.kind == "Unigram":
            # Its control tokens are pieces like others, which it finds in plain text too.
            self.modes = (True,)

    def encode(self, text, special):
        text = text.decode("utf-8", "replace")
        return self.documents.encode(text).ids if special else self.plain.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.documents.decode(ids).encode()

    def changes(self, special):
        if self.kind == "Unigram":
            # The head of charsmap.rs says how. Without what joins them clusters are single characters.
            apart = lambda text: without_marks(text).replace("\u200d", "")
            return [("normalises by clusters of characters", apart, apart, same)]
        if self.kind == "WordPiece":
            # Its tables are of Unicode 8; Python has some of 3.2 beside its own.
            old = functools.partial(without_newer, than=unicodedata.ucd_3_2_0)
            return [("has older Unicode tables", old, old, same)]
        return []


class SentencePiece:
    """Plain text alone: it has a text for the unknown token, and parses no special tokens. It reads each byte that is no
    UTF-8 as one U+FFFD."""

    name = "sentencepiece"
    modes = (False,)
    decodes = False
    specials = ["<s>", "</s>"]

    def __init__(self, file):
        import sentencepiece

        self.truth = sentencepiece.SentencePieceProcessor(model_file=str(file))

    def encode(self, text, special):
        return self.truth.encode(text)

    def changes(self, special):
        return []


class LlamaCpp:
    name = "llama.cpp"
    modes = (True, False)

    def __init__(self, file, folder):
        self.vocabulary = vocabulary = llama_cpp.Library(folder).open(file)
        self.specials = list(vocabulary.tokens(llama_cpp.PARSED).values())
        self.encode, self.decode = vocabulary.encode, vocabulary.decode
        self.model, self.pre = (vocabulary.value(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        self.decodes = self.model != "bert"
        self.decoded = [("takes blanks out of decoded text", without_blanks)]
        if self.model in ("llama", "t5"):
            self.decoded = [("keeps the blank before a decoded text", lambda text: b" " + text)]

    @functools.cache
    def changes(self, special):
        tokens = self.vocabulary.tokens(llama_cpp.PARSED if special else llama_cpp.USER_DEFINED)
        found = one_of(sorted(tokens.values(), key=len, reverse=True))

        def between(change):
            """Changes what is between special tokens."""
            return lambda text: "".join(part if re.fullmatch(found, part) else change(part) for part in re.split(f"({found})", text))

        older = ("has older Unicode tables", without_newer, without_newer, same)
        if self.model == "llama":
            takes = one_of(self.vocabulary.tokens(llama_cpp.TAKES_BLANKS).values())
            runs = {i: len(text) for i, text in self.vocabulary.tokens(llama_cpp.ALL).items() if text and not text.strip(" \u2581")}

            def one_by_one(ids):
                return [part for i in ids for part in (["blank"] * runs[i] if i in runs else [i])]

            return [
                ("takes ASCII blanks alone behind a token", lambda text: re.sub(f"({takes})[{BLANKS}]+", r"\1", text), same, same),
                ("finds no token for a run of U+2581", same, same, one_by_one),
            ]
        if self.model == "t5":
            return [
                ("keeps blanks outside ASCII at an end", between(lambda part: re.sub(f"[{BLANKS}\u200b]+$", "", part)), same, same),
                ("puts a blank before U+2581", same, between(lambda part: re.sub("^\u2581", "\u2581\u2581", part)), same),
            ]
        if self.model == "bert":
            return [
                older,
                ("takes the first character of a decomposition", same, lambda text: "".join(unicodedata2.normalize("NFD", c)[0] for c in text), same),
                ("drops spacing and enclosing marks", same, lambda text: "".join(c for c in text if unicodedata2.category(c) not in ("Mc", "Me")), same),
                ("reads U+2581 as the beginning of a word", same, lambda text: text.replace("\u2581", " "), same),
                ("reads control characters as blanks", lambda text: re.sub("[\x0b\x0c\x85]", "", text), same, same),
            ]
        if self.pre in ("qwen2", "qwen35"):
            return [older, ("composes no characters (NFC)", between(lambda part: unicodedata2.normalize("NFC", part)), same, same)]
        # Of these expressions no text has both meanings, so both get one in which what the peer mistakes does not stand.
        if self.pre in ("deepseek-llm", "deepseek-coder"):
            plain = lambda text: re.sub(f"[{BLANKS}]", lambda blank: blank[0] if blank[0] < "\u0800" else "\xa0", text)
            return [older, ("takes blanks above U+0800 for U+000B", plain, plain, same)]
        if self.pre in ("tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"):
            plain = lambda text: "".join(map(without_case, without_marks(text)))
            return [older, ("has no case outside ASCII, and no marks in words", plain, plain, same)]
        if self.pre == "youtu":
            plain = lambda text: "".join(map(without_case, re.sub("[A-Za-z]", "\xaa", text)))
            return [older, ("has no case", plain, plain, same)]
        return [older]


def without_marks(text):
    return "".join(c for c in text if unicodedata2.category(c)[0] != "M")


def without_case(c):
    return "\xaa" if c >= "\x80" and unicodedata2.category(c) in ("Lu", "Ll", "Lt") else c


def without_blanks(text):
    """Of a decoded text: no blank before signs, around an apostrophe, and before the ends of some English words."""
    for pattern, kept in ((rb" ([?!.,])", rb"\1"), (rb" ' ", b"'"), (rb" ('(?:s|m|re|ve))", rb"\1")):
        text = re.sub(pattern, kept, text)
    return text


def of(file, llama_folder):
    if file.suffix == ".gguf":
        return LlamaCpp(file, llama_folder)
    return SentencePiece(file) if file.suffix == ".model" else HuggingFace(file)
