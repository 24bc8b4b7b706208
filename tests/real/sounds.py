"""Speech, in every form that sounds have, through `rlx transcribe`."""
import json
import random
import shutil

import numpy as np
import soundfile

from command import Answer

SPEECH_RATE = 8000
MODEL_RATE = 16_000
LONG_SECONDS = 600
LONG_MB = 10
"""Most memory that ten minutes may take beside what one takes."""
READ = ["WAV", "WAVEX", "FLAC", "OGG", "MP3"]
"""Containers, as libsndfile names them, that are read."""
LONG_FORMS = [
    (16_000, 1, {"format": "WAV"}), (48_000, 2, {"format": "WAV"}), (44_100, 2, {"format": "FLAC"}),
    (44_100, 2, {"format": "OGG"}), (44_100, 1, {"format": "MP3"}),
]
"""Rates, channels and containers of long sounds."""
REFUSED_TEXT = "support"


def model(rlx, folder):
    """The small model with letters, as tests/cli/transcribe.rs has it."""
    folder.mkdir(parents=True, exist_ok=True)
    fixtures = rlx.root / "tests/fixtures"
    for file in ["config.json", "model.safetensors"]:
        shutil.copy(fixtures / "wav2vec2_stable" / file, folder / file)
    for file, content in json.loads((fixtures / "sound/pieces.json").read_text())["files"].items():
        (folder / file).write_text(json.dumps(content))
    return folder


def speech(found):
    """A second of speech as numbers from -1 to 1."""
    return np.frombuffer(found["webrtcvad"][0].read_bytes(), "<i2").astype(np.float64) / 32768


def at_rate(sound, rate):
    """The speech with so many samples a second, of as many bits as 16-bit files keep."""
    count = len(sound) * rate // SPEECH_RATE
    places = np.arange(count) * SPEECH_RATE / rate
    return np.round(np.interp(places, np.arange(len(sound)), sound) * 32768) / 32768


class Sounds:
    def __init__(self, rlx, folder, report):
        self.rlx, self.folder, self.report = rlx, folder, report
        self.model = model(rlx, folder / "model")

    def hear(self, *paths) -> Answer:
        return self.rlx("transcribe", "--model", self.model, "--device", "cpu", "--json", *paths)

    def write(self, name, sound, rate, **options):
        path = self.folder / name
        soundfile.write(path, sound, rate, **options)
        return path

    def same(self, name, path, text, seconds):
        """The file is heard as this text."""
        answer = self.hear(path)
        fault = answer.code and answer.said
        if not fault:
            (heard,) = answer.json()["sounds"]
            if abs(heard["seconds"] - seconds) > 1e-6:
                fault = f"{heard['seconds']} seconds, not {seconds}"
            elif text is not None and heard["text"] != text:
                fault = f"`{heard['text']}`, not `{text}`"
        self.report.check(name, fault)

    def forms(self, sound):
        for rate in (8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000):
            mono = at_rate(sound, rate)
            seconds = len(mono) / rate
            plain = self.hear(self.write("plain.wav", mono, rate, subtype="PCM_16"))
            self.report.check(f"speech at {rate}", plain.fault() or plain.code and plain.said)
            text = plain.json()["sounds"][0]["text"] if plain.code == 0 else None
            for channels in (1, 2, 6):
                each = np.repeat(mono[:, None], channels, axis=1)
                for container, subtype in [
                    ("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAVEX", "PCM_16"),
                    ("FLAC", "PCM_16"), ("FLAC", "PCM_24"),
                ]:
                    path = self.write(f"form.{container.lower()}", each, rate, format=container, subtype=subtype)
                    self.same(f"{container} {subtype} {rate} Hz {channels} channels", path, text, seconds)
                # Other numbers than those of 16 bits: of these the length alone is known.
                for container, subtype in [("WAV", "PCM_U8"), ("WAV", "ULAW"), ("WAV", "ALAW"), ("FLAC", "PCM_S8"), ("OGG", "VORBIS")]:
                    path = self.write(f"form.{container.lower()}", each, rate, format=container, subtype=subtype)
                    self.same(f"{container} {subtype} {rate} Hz {channels} channels", path, None, seconds)
                if rate in (8000, 16_000, 22_050, 44_100, 48_000) and channels < 3:
                    path = self.write("form.mp3", each, rate, format="MP3", subtype="MPEG_LAYER_III")
                    answer = self.hear(path)
                    self.report.check(f"MP3 {rate} Hz {channels} channels", answer.fault() or answer.code and answer.said)
        mono = at_rate(sound, 16_000)
        for container, subtype in [
            ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("CAF", "PCM_16"), ("W64", "PCM_16"), ("RF64", "PCM_16"), ("OGG", "OPUS"),
            ("WAV", "IMA_ADPCM"), ("WAV", "GSM610"), ("NIST", "PCM_16"), ("VOC", "PCM_16"),
        ]:
            answer = self.hear(self.write("form.other", mono, 16_000, format=container, subtype=subtype))
            read = answer.code == 0
            self.report.note(f"{container} {subtype}: {'read' if read else answer.said.splitlines()[0]}")
            self.report.check(f"{container} {subtype}", answer.fault() or not read and REFUSED_TEXT not in answer.said and answer.said)

    def edges(self, sound):
        for name, samples in [("no sample", sound[:0]), ("one sample", sound[:1]), ("silence", np.zeros(16_000))]:
            for container in ("WAV", "FLAC", "OGG"):
                path = self.write(f"edge.{container.lower()}", samples, 16_000, format=container)
                if path.stat().st_size == 0:
                    continue  # libsndfile writes nothing of a sound without samples
                answer = self.hear(path)
                text = answer.json()["sounds"][0]["text"] if answer.code == 0 else ""
                self.report.check(f"{name} in {container}", answer.fault() or answer.code and answer.said or len(samples) < 2 and text)
        rng = random.Random(5)
        mono = at_rate(sound, 16_000)
        for file, options in {"cut.wav": {}, "cut.flac": {}, "cut.ogg": {}, "cut.mp3": {"format": "MP3"}}.items():
            path = self.write(file, mono, 16_000, **options)
            whole = path.read_bytes()
            broken = [whole[: len(whole) * share // 100] for share in (0, 1, 10, 50, 90, 99)]
            for _ in range(20):
                bytes = bytearray(whole)
                for _ in range(rng.choice([1, 4, 30])):
                    bytes[rng.randrange(rng.choice([100, len(bytes)]))] = rng.randrange(256)
                broken.append(bytes)
            for i, bytes in enumerate(broken):
                path.write_bytes(bytes)
                answer = self.hear(path)
                self.report.check(f"damaged {file} {i}", answer.fault() or answer.seconds > 20 and f"{answer.seconds:.1f} s")

    def long(self, sound):
        """Ten minutes take no more memory than one."""
        for rate, channels, options in LONG_FORMS:
            answers = []
            for seconds in (60, LONG_SECONDS):
                mono = np.resize(at_rate(sound, rate), seconds * rate)
                path = self.folder / f"long.{options['format'].lower()}"
                with soundfile.SoundFile(path, "w", rate, channels, **options) as file:
                    for at in range(0, len(mono), rate):
                        file.write(np.repeat(mono[at : at + rate, None], channels, axis=1))
                answers.append(self.hear(path))
                path.unlink()
            short, long = answers
            name = f"{LONG_SECONDS} s, {rate} Hz, {channels} channels, {options['format']}"
            self.report.note(f"{name}: {long.seconds:.1f} s, {long.mb:.0f} MB at most; 60 s take {short.seconds:.1f} s and {short.mb:.0f} MB")
            more = long.mb - short.mb
            self.report.check(name, long.fault() or long.code and long.said or more > LONG_MB and f"{more:.0f} MB more than a minute")

    def tags(self, files):
        """Files of others: a text or a refusal."""
        count = 0
        for path in files:
            answer = self.hear(path)
            count += answer.code == 0
            self.report.check(f"file {path.name}", answer.fault() or answer.seconds > 60 and f"{answer.seconds:.1f} s")
        self.report.note(f"{count} of {len(files)} files of others are read, the others refused")


def check(rlx, found, cache, report):
    sounds = Sounds(rlx, cache / "sounds", report)
    if found["webrtcvad"]:
        sound = speech(found)
        report.group("sounds", lambda: sounds.forms(sound))
        report.group("edges", lambda: sounds.edges(sound))
        report.group("long", lambda: sounds.long(sound))
    else:
        report.skip("no speech: sounds of every form")
    files = [path for name in ("scipy", "mutagen") for path in found[name]]
    if files:
        report.group("tags", lambda: sounds.tags(files))
