"""Photographs, in every form that images have, through what reads them."""
import json
import random
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

VIT = "tests/fixtures/vit"
LARGEST_MB = 100_000_000 * 10 / 1e6
"""Most memory that a picture of the largest size may take, beside what a small one takes: pixels and the decoder's own."""
DECODERS = 0.05
"""How far a vector may be off, of its largest number, because JPEG decoders differ by a step or two of 255."""
TURNS = [
    None, None, Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180, Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_90, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_270,
]
"""What a camera did to a picture whose EXIF data has this orientation: undoing it makes it upright."""


def over_white(image):
    """What is seen of a picture: transparent ones over white, as the command lays them; of 16 bits the upper 8."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if image.mode in ("P", "PA", "LA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def png16(path, pixels, colour):
    """A PNG file of 16 bits, which Pillow does not write of colours; `colour` is PNG's number for the channels."""
    height, width = pixels.shape[:2]
    rows = pixels.astype(">u2").reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def vector(answer):
    return np.array(answer.json()["features"][0][0])


def apart(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


class Images:
    def __init__(self, rlx, folder, report):
        self.rlx, self.folder, self.report = rlx, folder, report
        folder.mkdir(parents=True, exist_ok=True)

    def features(self, path, model=VIT):
        return self.rlx("features", "--model", model, "--device", "cpu", "--pooled", "--json", path)

    def same(self, name, path, plain, most=0.0):
        """The file gives the vector of a plain picture."""
        reference = self.folder / "reference.png"
        plain.save(reference, compress_level=1)
        got, want = self.features(path), self.features(reference)
        for answer in (got, want):
            if answer.code != 0:
                return self.report.check(name, f"exit status {answer.code}: {answer.said}")
        off = apart(vector(got), vector(want))
        self.report.check(name, off > most and f"{off:.2e} of the largest number apart, {most} allowed")

    def refused(self, name, path, what):
        answer = self.features(path)
        fine = answer.fault() is None and answer.code == 3 and what in answer.said
        self.report.check(name, not fine and f"not refused with `{what}`: {answer.code} {answer.said.strip()}")

    def photographs(self, photographs):
        """Every photograph as it comes."""
        for path in photographs:
            name = f"photograph {path.name}"
            if path.suffix == ".tif":
                self.refused(name, path, "not supported")
                continue
            image = Image.open(path)
            self.same(name, path, over_white(image), DECODERS if path.suffix == ".jpg" else 0.0)

    def forms(self, photograph):
        """One photograph in every form."""
        rgb = Image.open(photograph).convert("RGB")
        grey = rgb.convert("L")
        alpha = Image.linear_gradient("L").resize(rgb.size)
        rgba = rgb.copy()
        rgba.putalpha(alpha)
        both = Image.merge("LA", (grey, alpha))
        palette = rgb.quantize(200)
        clear = palette.copy()
        clear.info["transparency"] = 7
        levels = np.asarray(rgb).astype(np.uint16)
        deep = levels << 8 | np.arange(levels.size, dtype=np.uint16).reshape(levels.shape) % 256
        exact = {
            "grey.png": grey, "grey-alpha.png": both, "rgba.png": rgba, "palette.png": palette, "one-bit.png": grey.convert("1"),
            "palette-clear.png": clear, "four-bits.png": rgb.quantize(16), "palette.gif": palette, "grey.gif": grey,
        }
        for file, image in exact.items():
            path = self.folder / file
            image.save(path, **({"transparency": 7} if image is clear else {}))
            self.same(f"form {file}", path, over_white(Image.open(path)))
        for file, image in {"lossless.webp": rgb, "lossless-alpha.webp": rgba}.items():
            path = self.folder / file
            image.save(path, lossless=True, exact=True)
            self.same(f"form {file}", path, over_white(Image.open(path)))
        for file, pixels, colour, plain in [
            ("rgb16.png", deep, 2, rgb), ("grey16.png", deep[..., 0], 0, Image.fromarray(np.asarray(rgb)[..., 0])),
            ("rgba16.png", np.dstack([deep, np.full(deep.shape[:2], 65535)]), 6, rgb),
            ("grey-alpha16.png", np.dstack([deep[..., 0], np.zeros(deep.shape[:2])]), 4, Image.new("RGB", rgb.size, "white")),
        ]:
            path = self.folder / file
            png16(path, pixels, colour)
            self.same(f"form {file}", path, plain)
        moving = self.folder / "moving.gif"
        palette.save(moving, save_all=True, append_images=[palette.transpose(Image.Transpose.ROTATE_180)], duration=50)
        self.same("form moving.gif", moving, over_white(Image.open(moving)))
        moving = self.folder / "moving.webp"
        rgb.save(moving, save_all=True, append_images=[rgb.transpose(Image.Transpose.ROTATE_180)], duration=50, lossless=True)
        self.same("form moving.webp", moving, over_white(Image.open(moving)))
        lossy = {
            "plain.jpg": {}, "progressive.jpg": {"progressive": True}, "full-colour.jpg": {"subsampling": 0, "quality": 95},
            "poor.jpg": {"quality": 5}, "restarts.jpg": {"restart_marker_blocks": 7}, "lossy.webp": {},
        }
        for file, options in lossy.items():
            path = self.folder / file
            rgb.save(path, **options)
            self.same(f"form {file}", path, over_white(Image.open(path)), DECODERS)
        grey.save(self.folder / "grey.jpg")
        self.same("form grey.jpg", self.folder / "grey.jpg", over_white(Image.open(self.folder / "grey.jpg")), DECODERS)
        rgb.convert("CMYK").save(self.folder / "inks.jpg")
        self.refused("form inks.jpg", self.folder / "inks.jpg", "a JPEG file of four inks (CMYK) is not supported")
        for file in ["photo.bmp", "photo.tif", "photo.ico", "photo.ppm", "photo.avif", "photo.jp2", "photo.tga"]:
            path = self.folder / file
            try:
                rgb.resize((64, 48)).save(path)
            except (KeyError, OSError, ValueError):
                self.report.skip(f"Pillow writes no {file} here")
                continue
            self.refused(f"form {file}", path, "support")
        wide = rgb.resize((60, 40))
        for turn in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = turn
            for file, options in {"turned.jpg": {"quality": 95}, "turned.png": {}, "turned.webp": {"lossless": True}}.items():
                path = self.folder / file
                wide.save(path, exif=exif, **options)
                upright = ImageOps.exif_transpose(Image.open(path).convert("RGB"))
                self.same(f"orientation {turn} of {file}", path, upright, DECODERS if file.endswith("jpg") else 0.0)

    def sizes(self, photograph):
        rgb = Image.open(photograph).convert("RGB")
        small = self.folder / "small.png"
        rgb.resize((64, 64)).save(small)
        base = self.features(small).mb
        for width, height in [(1, 1), (1, 4000), (4000, 1), (333, 517), (4000, 3000), (10_000, 10_000)]:
            for end in ["png", "jpg", "webp"]:
                name, path = f"size {width} x {height} {end}", self.folder / f"size.{end}"
                image = rgb.resize((width, height), Image.Resampling.BILINEAR)
                options = {"png": {"compress_level": 1}, "jpg": {"quality": 90}, "webp": {"quality": 50, "method": 0}}[end]
                image.save(path, **options)
                got = self.features(path)
                if width * height >= 12_000_000:
                    self.report.note(f"{name}: {got.seconds:.1f} s, {got.mb:.0f} MB at most, {base:.0f} MB of them of any picture")
                most = base + LARGEST_MB * 1.2
                self.report.check(name, got.fault() or got.code and got.said or got.mb > most and f"{got.mb:.0f} MB")
                del image
        path = self.folder / "beyond.png"
        Image.new("1", (10_001, 10_000)).save(path)
        self.refused("size 10001 x 10000", path, "a picture of 10001 x 10000 pixels is too large")

    def damaged(self, photograph):
        """Files that end too soon, and files with wrong bytes: a refusal or a picture, soon."""
        rng = random.Random(3)
        rgb = Image.open(photograph).convert("RGB").resize((120, 80))
        exif = Image.Exif()
        exif[0x0112] = 6
        png16(self.folder / "whole-deep.png", np.asarray(rgb).astype(np.uint16) << 8, 2)
        for name, image, options in [
            ("deep.png", None, {}), ("palette.png", rgb.quantize(200), {}), ("plain.jpg", rgb, {"exif": exif}),
            ("progressive.jpg", rgb, {"progressive": True}), ("lossy.webp", rgb, {"exif": exif}), ("lossless.webp", rgb, {"lossless": True}),
            ("moving.gif", rgb.quantize(200), {"save_all": True, "append_images": [rgb.rotate(180).quantize(200)]}),
        ]:
            path = self.folder / f"whole-{name}"
            if image:
                image.save(path, **options)
            whole = path.read_bytes()
            path = self.folder / f"damaged-{name}"
            broken = [whole[: len(whole) * share // 100] for share in (0, 1, 10, 50, 90, 99)]
            for _ in range(20):
                bytes = bytearray(whole)
                for _ in range(rng.choice([1, 4, 30])):
                    bytes[rng.randrange(rng.choice([min(200, len(bytes)), len(bytes)]))] = rng.randrange(256)
                broken.append(bytes)
            for i, bytes in enumerate(broken):
                path.write_bytes(bytes)
                answer = self.features(path)
                slow = answer.seconds > 20 and f"{answer.seconds:.1f} s"
                self.report.check(f"damaged {name} {i}", answer.fault() or slow)

    def tasks(self, photographs):
        """Photographs through every other task: masks are as large as the picture, and words find what they find."""
        turned = self.folder / "task-turned.jpg"
        exif = Image.Exif()
        exif[0x0112] = 6
        first = Image.open(photographs[0]).convert("RGB")
        first.save(turned, exif=exif)
        for path in [*photographs, turned]:
            image = ImageOps.exif_transpose(Image.open(path))
            w, h = image.size
            point, box = f"{w / 2},{h / 2}", f"{w * 0.2},{h * 0.2},{w * 0.7},{h * 0.8}"
            asks = [(model, shown) for model in ("sam", "sam2") for shown in (["--point", point], ["--box", box], ["--box", box, "--point", point])]
            asks += [("sam3", ["--text", "a cat", "--threshold", "0"]), ("sam3", ["--text", "cup", "--box", box, "--threshold", "0"])]
            for model, shown in asks:
                answer = self.rlx("segment", "--model", f"tests/fixtures/{model}", "--device", "cpu", "--json", *shown, path)
                name = f"segment {path.name} by {model} {shown[0]}"
                self.report.check(name, answer.fault() or answer.code and answer.said or masks(answer.json(), (w, h)))
            for model in ["dinov2_registers"]:
                answer = self.features(path, f"tests/fixtures/{model}")
                self.report.check(f"features {path.name} by {model}", answer.code and answer.said or not np.isfinite(vector(answer)).all())
        frames = []
        for i in range(8):
            path = self.folder / f"frame{i}.jpg"
            first.crop((10 * i, 4 * i, 10 * i + 333, 4 * i + 257)).save(path)
            frames.append(path)
        for shown in (["--point", "170,130"], ["--box", "100,80,220,200", "--box", "10,10,60,90"]):
            answer = self.rlx("track", "--model", "tests/fixtures/sam2_video", "--device", "cpu", "--json", *shown, *frames)
            lines = [json.loads(line) for line in answer.out.splitlines()]
            fault = answer.code and answer.said or len(lines) != 8 and f"{len(lines)} lines" or None
            for line in lines if not fault else []:
                fault = fault or masks({"image": line["image"], "masks": line["things"]}, (333, 257), scores=False)
            self.report.check(f"track {shown[0]}", fault)


def masks(answer, size, scores=True):
    """What is wrong with masks of a picture of that size."""
    if answer["image"] != list(size):
        return f"a picture of {answer['image']}, not {size}"
    for mask in answer["masks"]:
        if sum(mask["runs"]) != size[0] * size[1]:
            return f"a mask of {sum(mask['runs'])} pixels"
        if sum(mask["runs"][1::2]) != mask["pixels"]:
            return "a mask covers other pixels than it says"
        if scores and not np.isfinite(mask["score"]):
            return f"a score of {mask['score']}"
    return None


def check(rlx, found, cache, report):
    photographs = found["scikit-image"]
    if not photographs:
        return report.skip("no photographs: nothing is read as an image")
    by = {path.name: path for path in photographs}
    images = Images(rlx, cache / "images", report)
    report.group("photographs", lambda: images.photographs(photographs))
    report.group("forms", lambda: images.forms(by["astronaut.png"]))
    report.group("sizes", lambda: images.sizes(by["coffee.png"]))
    report.group("damaged", lambda: images.damaged(by["chelsea.png"]))
    several = ["astronaut.png", "coffee.png", "chelsea.png", "camera.png", "logo.png", "horse.png", "rocket.jpg"]
    report.group("tasks", lambda: images.tasks([by[name] for name in several]))
