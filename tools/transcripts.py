#!/usr/bin/env python3
"""Records what transformers makes of a sound's tokens: tests/fixtures/sound/ctc.json, inputs.json, pieces.json, files.json and its files.

    pip install torch transformers==5.23 numpy soundfile
    python tools/transcripts.py

Each case of ctc.json has the files of a tokenizer, ids of frames, and the text and words that
`Wav2Vec2CTCTokenizer` makes of them. inputs.json has sounds and what `Wav2Vec2FeatureExtractor` makes of them.
pieces.json has what the pipeline for recognition of speech says of a sound heard in pieces by tests/fixtures/wav2vec2_stable. files.json has the samples that libsndfile reads of sound.flac,
sound.ogg and sound.mp3, which it wrote.
"""

import json
import random
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch
from transformers import (
    AutomaticSpeechRecognitionPipeline,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
)

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
LETTERS = "ETAONIHSRDLUMWCFGYPBVK'XJQZ"
ENGLISH = {t: i for i, t in enumerate(["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS])}
SMALL = {"[PAD]": 9, "[UNK]": 8, "|": 0, "n't": 1, "'": 2, ".": 3, ",": 4, "a": 5, "Σ": 6, "n": 7, " ": 10}
BRACKETS = {"pad_token": "[PAD]", "unk_token": "[UNK]"}


def tokenizer(folder, vocab, config, special=None, added=None):
    folder = Path(folder)
    files = {"vocab.json": vocab, "tokenizer_config.json": config}
    if special is not None:
        files["special_tokens_map.json"] = special
    if added is not None:
        files["added_tokens.json"] = added
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return Wav2Vec2CTCTokenizer.from_pretrained(folder), files


def ctc():
    rng = random.Random(7)
    spell = lambda text: [ENGLISH["|" if c == " " else c] for c in text]
    # Letters, each for some frames, with blanks between equal ones and here and there.
    def frames(text):
        out = [0] * rng.randrange(3)
        for id in spell(text):
            out += ([0] if out and out[-1] == id else [0] * rng.randrange(2)) + [id] * rng.randrange(1, 4)
        return out + [0] * rng.randrange(3)

    noise = lambda n, ids: [rng.choice(ids) for _ in range(n)]
    cases = [
        ("words", ENGLISH, {}, 32, frames("HELLO WORLD IT'S ME")),
        ("two delimiters", ENGLISH, {}, 32, [4, 0, 4] + frames("A") + [4, 0, 4, 4] + frames("BOOK") + [4, 0, 4]),
        ("small letters", ENGLISH, {"do_lower_case": True}, 32, frames("THE CAT SAT")),
        ("special tokens stay", ENGLISH, {}, 32, [1, 1, 0, 24, 3, 2, 4, 4, 5]),
        ("nothing", ENGLISH, {}, 32, []),
        ("only blanks", ENGLISH, {}, 32, [0, 0, 4, 0, 4]),
        ("ids without a token", ENGLISH, {}, 40, [24, 33, 34, 3, 0, 3, 39, 4, 5, 5]),
        ("noise", ENGLISH, {}, 32, noise(200, list(range(32)))),
        ("cleaned", SMALL, {**BRACKETS, "clean_up_tokenization_spaces": True}, 11,
         [5, 0, 3, 0, 2, 0, 5, 0, 1, 0, 3, 9, 3, 0, 2, 0, 2, 0, 7, 0, 4]),
        ("no delimiter", SMALL, {**BRACKETS, "word_delimiter_token": None}, 11, [5, 0, 5, 10, 6, 6]),
    ]
    for i in range(8):
        config = {**BRACKETS, "clean_up_tokenization_spaces": True, "do_lower_case": i % 2 == 0}
        cases.append((f"cleaned noise {i}", SMALL, config, 11, noise(120, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10])))
    out = []
    for what, vocab, config, size, ids in cases:
        with tempfile.TemporaryDirectory() as folder:
            made, files = tokenizer(folder, vocab, config)
            out.append(case(what, made, files, size, ids))
    # Names in the other files.
    own = {"|": 0, "a": 1, "[PAD]": 2}
    with tempfile.TemporaryDirectory() as folder:
        made, files = tokenizer(folder, own, {"unk_token": "[UNK]"}, {"pad_token": "[PAD]"}, {"<s>": 3, "</s>": 4})
        out.append(case("other files", made, files, 6, [3, 1, 1, 2, 1, 0, 4, 5, 1]))
    return {"cases": out}


def case(what, made, files, size, ids):
    heard = made.decode(ids, output_word_offsets=True)
    words = [[w["word"], int(w["start_offset"]), int(w["end_offset"])] for w in heard.word_offsets or []]
    return {"what": what, "files": files, "vocab": size, "ids": ids, "text": heard.text, "words": words}


def inputs():
    rng = np.random.default_rng(5)
    n = np.arange(300)
    sounds = {
        "wave": 0.3 * np.sin(n / 7) + 0.1,
        "noise": rng.normal(0, 0.01, 300) - 0.5,
        "silence": np.zeros(20),
        "one": np.array([0.25]),
        "click": np.eye(1, 50, 20)[0],
    }
    made = Wav2Vec2FeatureExtractor()
    out = []
    for what, sound in sounds.items():
        sound = sound.astype(np.float32)
        got = made(sound, sampling_rate=16000).input_values[0]
        out.append({"what": what, "sound": [float(x) for x in sound], "input": [float(x) for x in got]})
    return {"cases": out}


def pieces():
    """The sound is computed by the test too: integers and divisions by powers of two are exact."""
    model = Wav2Vec2ForCTC.from_pretrained(FIXTURES / "wav2vec2_stable").eval()
    extractor = Wav2Vec2FeatureExtractor()
    out = []
    with tempfile.TemporaryDirectory() as folder:
        made, files = tokenizer(folder, ENGLISH, {})
        pipe = AutomaticSpeechRecognitionPipeline(model=model, tokenizer=made, feature_extractor=extractor)
        for samples in [2400, 9000, 9600, 9601, 14401, 15999]:
            state, sound = 1, []
            for i in range(samples):
                state = (state * 1103515245 + 12345) % 2**31
                loud = 1 + (i // 500) % 5
                sound.append(((state >> 16) % 256 - 128) * loud / 1024)
            got = pipe(np.array(sound, np.float32), chunk_length_s=0.3, return_timestamps="word")
            words = [[c["text"], *map(float, c["timestamp"])] for c in got["chunks"]]
            out.append({"samples": samples, "text": got["text"], "words": words})
    return {"seconds": 0.3, "files": files, "cases": out}


def files():
    n = np.arange(2400)
    left = 0.4 * np.sin(n / 9 + np.sin(n / 150)) * np.minimum(1, n / 300)
    right = 0.3 * np.sin(n / 23)
    out = []
    for name, rate in [("sound.flac", 22050), ("sound.ogg", 22050), ("sound.mp3", 24000)]:
        path = FIXTURES / "sound" / name
        soundfile.write(path, np.stack([left, right], axis=1), rate)
        read, rate = soundfile.read(path, dtype="int16")
        # The sum of both channels: twice their mean.
        out.append({"what": name, "rate": rate, "samples": [int(x) for x in read.astype(np.int32).sum(axis=1)]})
    return {"cases": out}


def write(name, record):
    path = FIXTURES / "sound" / name
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text.replace('{"what"', '\n{"what"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.manual_seed(0)
    write("ctc.json", ctc())
    write("inputs.json", inputs())
    write("pieces.json", pieces())
    write("files.json", files())
