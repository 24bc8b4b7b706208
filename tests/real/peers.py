"""Photographs and speech compared with transformers, where it is installed."""

import numpy as np
from PIL import Image

import sounds
from images import over_white

MOST = 2e-5
"""How far vectors may be off, of the largest number: of a photograph in an exact format."""


def check(rlx, found, cache, report):
    try:
        import torch
        import transformers
    except ImportError:
        return report.skip("torch and transformers are not installed: no comparison with them")
    folder = cache / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    photographs = [path for path in found["scikit-image"] if path.suffix == ".png"]
    report.group("peers", lambda: (features(rlx, photographs, report, torch, transformers), speech(rlx, found, cache, report, torch, transformers)))


def features(rlx, photographs, report, torch, transformers):
    """Vectors of photographs; the processor is the one that the command has for a folder without its file."""
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    model = transformers.ViTModel.from_pretrained(rlx.root / "tests/fixtures/vit").eval()
    processor = ViTImageProcessorPil(size={"height": 48, "width": 48})
    largest = 0.0
    for path in photographs:
        answer = rlx("features", "--model", "tests/fixtures/vit", "--device", "cpu", "--pooled", "--json", path)
        if answer.code != 0:
            report.check(f"transformers and {path.name}", answer.said)
            continue
        with torch.no_grad():
            made = model(**processor(over_white(Image.open(path)), return_tensors="pt"))
        want = made.pooler_output[0].numpy()
        off = float(np.abs(np.array(answer.json()["features"][0][0]) - want).max() / np.abs(want).max())
        largest = max(largest, off)
        report.check(f"transformers and {path.name}", off > MOST and f"{off:.2e} of the largest number apart")
    report.note(f"vectors of {len(photographs)} photographs: {largest:.1e} of the largest number from transformers' at most")


def speech(rlx, found, cache, report, torch, transformers):
    """What is heard, at the model's own rate."""
    import soundfile

    if not found["webrtcvad"]:
        return report.skip("no speech to compare with transformers")
    folder = sounds.model(rlx, cache / "peers" / "model")
    sound = sounds.at_rate(sounds.speech(found), sounds.MODEL_RATE).astype(np.float32)
    path = cache / "peers" / "speech.wav"
    soundfile.write(path, sound, sounds.MODEL_RATE, subtype="PCM_16")
    answer = rlx("transcribe", "--model", folder, "--device", "cpu", "--json", path)
    pipe = transformers.AutomaticSpeechRecognitionPipeline(
        model=transformers.Wav2Vec2ForCTC.from_pretrained(folder).eval(),
        tokenizer=transformers.Wav2Vec2CTCTokenizer.from_pretrained(folder),
        feature_extractor=transformers.Wav2Vec2FeatureExtractor(),
    )
    want = pipe(sound)["text"]
    got = answer.json()["sounds"][0]["text"] if answer.code == 0 else answer.said
    report.check("transformers and speech", got != want and f"`{got}`, not `{want}`")
