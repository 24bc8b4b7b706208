//! `rlx features`: what transformers' models make of recorded images, on every device, and what is said of
//! files that are no such image and of models that see none.

use super::{SMALL, fails, folder, repository, rlx, run};
use image::imageops::{flip_horizontal, flip_vertical, rotate90, rotate180, rotate270};
use image::{ImageFormat, LumaA, Rgb, RgbImage, Rgba};
use rlx_core::compare::difference;
use rlx_core::safetensors::{Header, HeaderReader};
use rlx_native::npy::Array;
use serde_json::Value;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

const VIT: &str = "tests/fixtures/vit";
const DEVICES: [&str; 3] = ["reference", "cpu", "webgpu"];
/// Some ten times what is measured, of the largest.
const TOLERANCE: f64 = 2e-5;

/// A file of recorded tensors.
struct Records(Header, Vec<u8>);

impl Records {
    fn open(name: &str) -> Self {
        let bytes = super::fixture(&format!("images/{name}"));
        let mut reader = HeaderReader::new(name, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        Records(reader.into_header().unwrap(), bytes)
    }

    fn get(&self, name: &str) -> (&[u64], &[u8]) {
        let t = &self.0.tensors[name];
        (&t.shape, &self.1[t.offset as usize..(t.offset + t.bytes) as usize])
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.get(name).1.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    /// Writes a recorded image, of one, three or four bytes a pixel, as PNG.
    fn write(&self, name: &str, path: &Path) {
        let (shape, bytes) = self.get(&format!("image.{name}"));
        let (height, width, bytes) = (shape[0] as u32, shape[1] as u32, bytes.to_vec());
        match shape[2] {
            1 => image::GrayImage::from_raw(width, height, bytes).unwrap().save(path),
            3 => RgbImage::from_raw(width, height, bytes).unwrap().save(path),
            _ => image::RgbaImage::from_raw(width, height, bytes).unwrap().save(path),
        }
        .unwrap();
    }
}

/// Paths as the command line has them.
fn texts(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|p| p.to_str().unwrap()).collect()
}

/// A folder with the model of those fixtures, and this `preprocessor_config.json`.
fn model(name: &str, from: &str, processor: &str) -> PathBuf {
    let to = folder(name);
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(repository("tests/fixtures").join(from).join(file), to.join(file)).unwrap();
    }
    std::fs::write(to.join("preprocessor_config.json"), processor).unwrap();
    to
}

/// DINOv2's own, for small images.
const DINOV2: &str = r#"{"image_processor_type": "BitImageProcessor", "resample": 3,
    "size": {"shortest_edge": 64}, "crop_size": {"height": 56, "width": 56},
    "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}"#;

/// What `--json` prints.
#[track_caller]
fn features(args: &[&str], images: &[&str]) -> Value {
    let (code, out, said) = run(rlx(&["features", "--json"]).args(args).arg("--").args(images));
    assert_eq!((code, said.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

fn numbers(rows: &Value) -> Vec<f32> {
    let rows = rows.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    rows.map(|x| x.as_f64().unwrap() as f32).collect()
}

/// Rows of one image.
#[track_caller]
fn rows(args: &[&str], image: &Path) -> Vec<f32> {
    numbers(&features(args, &[image.to_str().unwrap()])["features"][0])
}

/// Odd sizes, grey, opacity, one pixel, far wider and far taller than wide.
const IMAGES: [&str; 6] = ["odd", "tall", "wide", "one", "grey", "alpha"];

#[test]
fn images_have_the_vectors_of_transformers_on_every_device() {
    let (records, made) = (Records::open("records.safetensors"), folder("features"));
    let recorded = Records::open("features.safetensors");
    let paths = IMAGES.map(|name| made.join(format!("{name}.png")));
    IMAGES.iter().zip(&paths).for_each(|(name, path)| records.write(name, path));
    let dinov2 = model("features-dinov2", "dinov2_registers", DINOV2);
    for (family, model, count) in
        [("vit", VIT, 37), ("dinov2_registers", dinov2.to_str().unwrap(), 20)]
    {
        for device in DEVICES {
            let args = ["--model", model, "--device", device];
            let pooled = features(&[&args[..], &["--pooled"]].concat(), &texts(&paths));
            assert_eq!((&pooled["width"], &pooled["device"]), (&64.into(), &device.into()));
            assert_eq!(pooled["rows"], serde_json::json!([1, 1, 1, 1, 1, 1]));
            let same = |got: &[f32], record: &str| {
                let want = recorded.floats(&format!("{family}.{record}"));
                assert_eq!(got.len(), want.len());
                let found = difference(got, &want);
                println!("{family} {record} on {device}: {:.2e}", found.relative());
                assert!(found.relative() <= TOLERANCE, "{family} {record} on {device}: {found:?}");
            };
            for (name, vector) in IMAGES.iter().zip(pooled["features"].as_array().unwrap()) {
                same(&numbers(vector), &format!("{name}.pooled"));
            }
            let all = features(&args, &texts(&paths[..1]));
            assert_eq!((&all["rows"], &all["images"]), (&serde_json::json!([count]), &1.into()));
            same(&numbers(&all["features"][0]), "odd.rows");
        }
    }
}

#[test]
fn packed_matrices_give_nearly_the_same_vectors_on_every_device() {
    let made = folder("features-packed");
    let packed = made.join("vit-q8");
    let to = packed.to_str().unwrap();
    let (code, stdout, stderr) = run(&mut rlx(&["quantize", VIT, to, "--to", "q8_0"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("q8_0, ") && stdout.contains(" tensors encoded"), "{stdout}");
    let size = |path: &Path| fs::metadata(path.join("model.safetensors")).unwrap().len();
    assert!(size(&packed) * 2 < size(&repository(VIT)));
    let image = made.join("a.png");
    smooth(64, 40).save(&image).unwrap();
    let plain = rows(&["--model", VIT, "--device", "cpu"], &image);
    for device in DEVICES {
        let found = difference(&rows(&["--model", to, "--device", device], &image), &plain);
        println!("{device}: {found:?}");
        assert!(found.relative() > 0.0 && found.relative() < 0.03, "{device}: {found:?}");
    }
    // What is packed is not packed again unasked, and no folder is replaced.
    let other = made.join("again").display().to_string();
    let (code, _, stderr) = run(&mut rlx(&["quantize", to, &other, "--to", "q4_0"]));
    assert!(code == 2 && stderr.contains("is packed as q8_0 and would become q4_0"), "{stderr}");
    let (code, _, stderr) = run(&mut rlx(&["quantize", VIT, to, "--to", "q4_0"]));
    assert!(code == 2 && stderr.contains("of this name already"), "{stderr}");
}

/// A picture of smooth colours, which JPEG keeps well.
fn smooth(width: u32, height: u32) -> RgbImage {
    let byte = |a: u32, whole: u32| (a * 255 / whole.max(1)) as u8;
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([byte(x, width), byte(y, height), byte(x + y, width + height)])
    })
}

#[test]
fn one_picture_is_the_same_in_every_format() {
    let made = folder("features-formats");
    let args = ["--model", VIT, "--device", "cpu"];
    let rgb = smooth(64, 40);
    let save = |name: &str| {
        let path = made.join(name);
        rgb.save(&path).unwrap();
        path
    };
    let png = rows(&args, &save("a.png"));
    assert_eq!(rows(&args, &save("a.webp")), png);
    let opaque = made.join("opaque.png");
    let with = |Rgb([r, g, b]): Rgb<u8>, a: u8| Rgba([r, g, b, a]);
    image::RgbaImage::from_fn(64, 40, |x, y| with(rgb[(x, y)], 255)).save(&opaque).unwrap();
    assert_eq!(rows(&args, &opaque), png);
    // 16 bits: the same bytes above, and anything below.
    let deep = image::ImageBuffer::<Rgb<u16>, Vec<u16>>::from_fn(64, 40, |x, y| {
        Rgb(rgb[(x, y)].0.map(|c| u16::from(c) << 8 | (x * 3) as u16))
    });
    let path = made.join("deep.png");
    deep.save(&path).unwrap();
    assert_eq!(rows(&args, &path), png);
    // Grey is red, green and blue; so is it in a GIF, whose 256 colours have every grey.
    let grey = image::GrayImage::from_fn(64, 40, |x, y| image::Luma([rgb[(x, y)].0[2]]));
    let wide = RgbImage::from_fn(64, 40, |x, y| Rgb([grey[(x, y)].0[0]; 3]));
    let paths = ["grey.png", "wide.png", "wide.gif"].map(|name| made.join(name));
    grey.save(&paths[0]).unwrap();
    wide.save(&paths[1]).unwrap();
    wide.save(&paths[2]).unwrap();
    let found = paths.map(|path| rows(&args, &path));
    assert!(found[1] == found[0] && found[2] == found[0]);
    // Grey that is half seen, and a palette of which a colour is not: over white.
    let half = made.join("half.png");
    image::GrayAlphaImage::from_fn(64, 40, |x, y| LumaA([grey[(x, y)].0[0], (y * 6) as u8]))
        .save(&half)
        .unwrap();
    let same = made.join("half-rgba.png");
    image::RgbaImage::from_fn(64, 40, |x, y| with(Rgb([grey[(x, y)].0[0]; 3]), (y * 6) as u8))
        .save(&same)
        .unwrap();
    assert_eq!(rows(&args, &half), rows(&args, &same));
    let (colours, seen) = ([[200, 30, 40], [9, 9, 9], [10, 220, 90]], [255, 0, 128]);
    let index = |x: u32, y: u32| ((x / 7 + y / 5) % 3) as usize;
    let palette = made.join("palette.png");
    std::fs::write(&palette, of_palette(64, 40, &colours, &seen, index)).unwrap();
    image::RgbaImage::from_fn(64, 40, |x, y| with(Rgb(colours[index(x, y)]), seen[index(x, y)]))
        .save(&same)
        .unwrap();
    assert_eq!(rows(&args, &palette), rows(&args, &same));
    // A transparent picture is white, whatever lies beneath.
    let clear = made.join("clear.png");
    image::RgbaImage::from_fn(64, 40, |x, y| with(rgb[(x, y)], 0)).save(&clear).unwrap();
    let white = made.join("white.png");
    RgbImage::from_pixel(64, 40, Rgb([255; 3])).save(&white).unwrap();
    assert_eq!(rows(&args, &clear), rows(&args, &white));
    // JPEG loses something.
    let found = difference(&rows(&args, &save("a.jpg")), &png);
    assert!(found.relative() > 0.0 && found.relative() <= 0.1, "{found:?}");
}

/// A JPEG file whose EXIF data say that it is turned.
fn turned(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    // One entry: orientation, a short.
    let tiff = [
        &b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..],
        &[orientation, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let length = (tiff.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, &tiff, &jpeg[2..]].concat()
}

fn jpeg(picture: &RgbImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Jpeg).unwrap();
    file.into_inner()
}

#[test]
fn a_photo_is_turned_as_its_camera_says() {
    let made = folder("features-turned");
    let args = ["--model", VIT, "--device", "cpu"];
    let plain = jpeg(&smooth(64, 40));
    let path = made.join("turned.jpg");
    let by_hand = made.join("by-hand.png");
    let flat = image::load_from_memory(&plain).unwrap().to_rgb8();
    let mut all: Vec<Vec<f32>> = Vec::new();
    for orientation in 1..=8 {
        std::fs::write(&path, turned(&plain, orientation)).unwrap();
        let upright = match orientation {
            2 => flip_horizontal(&flat),
            3 => rotate180(&flat),
            4 => flip_vertical(&flat),
            5 => flip_horizontal(&rotate90(&flat)),
            6 => rotate90(&flat),
            7 => flip_horizontal(&rotate270(&flat)),
            8 => rotate270(&flat),
            _ => flat.clone(),
        };
        upright.save(&by_hand).unwrap();
        let found = rows(&args, &path);
        assert!(found == rows(&args, &by_hand), "orientation {orientation}");
        assert!(!all.contains(&found), "orientation {orientation}");
        all.push(found);
    }
}

#[test]
fn numbers_go_to_a_file_or_are_lines_of_json() {
    let made = folder("features-output");
    let args = ["--model", VIT, "--device", "cpu"];
    let images = [(30, 20), (9, 31)].map(|(w, h)| {
        let path = made.join(format!("{w}.png"));
        smooth(w, h).save(&path).unwrap();
        path
    });
    let images = texts(&images);
    let all = features(&args, &images);
    let expected = all["features"].as_array().unwrap().iter().flat_map(numbers).collect::<Vec<_>>();
    let file = made.join("rows.npy");
    let file = file.to_str().unwrap();
    let to_file = |more: &[&str]| {
        let mut command = rlx(&["features", "--output", file]);
        command.args(args).args(more).arg("--").args(&images);
        command
    };
    let read = || {
        let array = Array::parse(&std::fs::read(file).unwrap()).unwrap();
        let numbers = array.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
        (array.dims, numbers.collect::<Vec<f32>>())
    };
    let (code, out, said) = run(&mut to_file(&[]));
    let line = format!("74 vectors of 64 numbers of 2 images in {file}\n");
    assert_eq!((code, out, said.as_str()), (0, line, ""));
    assert_eq!(read(), (vec![2, 37, 64], expected.clone()));
    fails(
        &mut to_file(&[]),
        2,
        &format!("there is a file of this name already ({file})"),
        "give another name, or --force to replace it",
    );
    let (code, out, _) = run(&mut to_file(&["--force", "--pooled", "--json"]));
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &out["rows"], out.get("features")), (0, &serde_json::json!([1, 1]), None));
    let pooled = features(&[&args[..], &["--pooled"]].concat(), &images);
    let pooled = pooled["features"].as_array().unwrap().iter().flat_map(numbers);
    let pooled: Vec<f32> = pooled.collect();
    assert_eq!(read(), (vec![2, 64], pooled.clone()));
    // Without a file: a line for each image, of its rows or of its one vector.
    let lines = |more: &[&str]| -> Vec<Value> {
        let (code, out, _) = run(rlx(&["features"]).args(args).args(more).args(&images));
        assert_eq!(code, 0);
        out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    assert_eq!(lines(&[]).iter().flat_map(numbers).collect::<Vec<_>>(), expected);
    let vectors = Value::Array(lines(&["--pooled"]));
    assert_eq!(numbers(&vectors), pooled);
}

/// One chunk of a PNG file, with its sum.
fn chunk(name: &[u8], bytes: &[u8]) -> Vec<u8> {
    let all = [name, bytes].concat();
    let sum = all.iter().fold(!0u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |s, _| (s >> 1) ^ (0xedb8_8320 & (s & 1).wrapping_neg()))
    });
    [&(bytes.len() as u32).to_be_bytes()[..], &all, &(!sum).to_be_bytes()].concat()
}

/// A PNG file whose pixels are places in a palette of colours, of which each is seen so much.
fn of_palette(
    width: u32,
    height: u32,
    colours: &[[u8; 3]],
    seen: &[u8],
    index: impl Fn(u32, u32) -> usize,
) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 3, 0, 0, 0]].concat();
    let mut rows = Vec::new();
    for y in 0..height {
        rows.push(0);
        rows.extend((0..width).map(|x| index(x, y) as u8));
    }
    // One block that is stored as it is, and its sum.
    let (a, b) = rows.iter().fold((1u32, 0u32), |(a, b), &x| {
        let a = (a + u32::from(x)) % 65521;
        (a, (a + b) % 65521)
    });
    let length = rows.len() as u16;
    let pixels = [
        &[0x78, 1, 1][..],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        &rows,
        &(b << 16 | a).to_be_bytes(),
    ]
    .concat();
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &chunk(b"IHDR", &header),
        &chunk(b"PLTE", &colours.concat()),
        &chunk(b"tRNS", seen),
        &chunk(b"IDAT", &pixels),
        &chunk(b"IEND", b""),
    ]
    .concat()
}

/// A PNG file that says it has so many pixels, of 8 bits and three colours, and has next to none.
fn promises(width: u32, height: u32) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let pixels = [0x78, 0x9c, 0x63, 0, 0, 0, 1, 0, 1];
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header), &chunk(b"IDAT", &pixels)].concat()
}

#[test]
fn files_that_are_no_image_are_refused_before_memory_is_taken() {
    let made = folder("features-hostile");
    let whole = jpeg(&smooth(64, 40));
    // Four inks: the frame header says how many components there are.
    let mut inks = whole.clone();
    let frame = inks.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    assert_eq!(inks[frame + 9], 3);
    inks[frame + 9] = 4;
    let mut png = Cursor::new(Vec::new());
    smooth(64, 40).write_to(&mut png, ImageFormat::Png).unwrap();
    let mut png = png.into_inner();
    png.truncate(png.len() / 2);
    let cut = [promises(0, 9), png];
    let read = "at most 100000000 pixels are read, and 1048576 along an edge";
    let formats = "give a PNG, JPEG, WebP or GIF file";
    let cases: [(&str, &[u8], &str, &str); 8] = [
        (
            "text.png",
            b"no picture, but words",
            "the file is not an image in a supported format",
            formats,
        ),
        ("empty.png", b"", "the file is not an image in a supported format", formats),
        ("model.png", b"GGUF\x03\0\0\0", "the file is not an image in a supported format", formats),
        ("bmp.png", b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0", "the picture is not supported", formats),
        ("inks.jpg", &inks, "a JPEG file of four inks (CMYK) is not supported", "save it as RGB"),
        ("edge.png", &promises(0x7fff_ffff, 1), "the picture is too large", read),
        ("both.png", &promises(0x7fff_ffff, 0x7fff_ffff), "the picture is too large", read),
        (
            "area.png",
            &promises(60_000, 60_000),
            "a picture of 60000 x 60000 pixels is too large",
            "at most 100000000 pixels are read",
        ),
    ];
    let asked = |path: &Path| run(&mut rlx(&["features", "--model", VIT, path.to_str().unwrap()]));
    for (name, bytes, what, hint) in cases {
        let path = made.join(name);
        std::fs::write(&path, bytes).unwrap();
        let start = std::time::Instant::now();
        let (code, out, said) = asked(&path);
        assert_eq!((code, out.as_str()), (3, ""), "{name}: {said}");
        assert!(said.starts_with(&format!("error: {what}")), "{name}: {said}");
        assert!(said.ends_with(&format!("\nhint: {hint}\n")), "{name}: {said}");
        assert!(said.contains(&format!("({})", path.display())), "{name}: {said}");
        // Filling what is promised would take longer.
        assert!(start.elapsed().as_secs() < 20, "{name}");
    }
    for (i, bytes) in cut.iter().enumerate() {
        let path = made.join(format!("cut-{i}.png"));
        std::fs::write(&path, bytes).unwrap();
        let (code, out, said) = asked(&path);
        assert_eq!((code, out.as_str()), (3, ""), "{said}");
        assert!(said.starts_with("error: the picture cannot be read: "), "{said}");
    }
    // Every beginning of a file is an error, or the picture where only its end is missing.
    let path = made.join("beginning.jpg");
    for length in [1, 2, 3, 20, frame, frame + 5, frame + 12, whole.len() / 2] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (code, _, said) = asked(&path);
        assert!(code == 0 || code == 3, "{length}: {code} {said}");
        assert!(!said.contains("panicked"), "{length}: {said}");
    }
}

#[test]
fn what_gives_no_features_says_why() {
    let made = folder("features-refused");
    let image = made.join("a.png");
    smooth(20, 5).save(&image).unwrap();
    let image = image.to_str().unwrap();
    let asks = |args: &[&str]| rlx(&[&["features"], args].concat());
    fails(
        &mut asks(&["--model", SMALL, image]),
        3,
        "a model of family llama32 generates text",
        "`rlx run` asks it; a vector of an image comes from a model such as dinov2",
    );
    let none = made.join("none.png");
    let (code, _, said) = run(&mut asks(&["--model", VIT, none.to_str().unwrap()]));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("none.png"), "{said}");
    // Images are left as they are, and this one has no patch.
    let raw = r#"{"image_processor_type": "BitImageProcessor", "do_resize": false,
        "do_center_crop": false}"#;
    let small = model("features-small", "dinov2_registers", raw);
    let processor = "give a larger image, or a preprocessor_config.json that makes it larger";
    for device in DEVICES {
        fails(
            &mut asks(&["--model", small.to_str().unwrap(), "--device", device, image]),
            3,
            &format!("20 x 5 pixels are less than a patch, which has 14 x 14 ({image})"),
            processor,
        );
    }
    // ViT has images of one size.
    let other = model("features-size", "vit", r#"{"size": 40}"#);
    fails(
        &mut asks(&["--model", other.to_str().unwrap(), image]),
        3,
        &format!(
            "the model takes images of 48 x 48 pixels, preprocessor_config.json makes 40 x 40 \
             ({image})"
        ),
        "use the files that belong to one model",
    );
    // Rows of images of different sizes make no array.
    let large = made.join("b.png");
    smooth(44, 30).save(&large).unwrap();
    let larger = made.join("c.png");
    smooth(30, 60).save(&larger).unwrap();
    let output = made.join("x.npy");
    let output = output.to_str().unwrap();
    let files = texts(std::slice::from_ref(&large));
    let more = texts(std::slice::from_ref(&larger));
    fails(
        &mut asks(&["--model", small.to_str().unwrap(), "--output", output, files[0], more[0]]),
        2,
        "--output: the images have different numbers of rows",
        "give images of one size, or --pooled",
    );
    for (name, processor, what) in [
        ("key", r#"{"sparkle": 1}"#, "sparkle"),
        ("kind", r#"{"image_processor_type": "SamImageProcessor"}"#, "`SamImageProcessor`"),
        ("json", "{", "preprocessor_config.json"),
    ] {
        let folder = model(&format!("features-{name}"), "vit", processor);
        let (code, _, said) = run(&mut asks(&["--model", folder.to_str().unwrap(), image]));
        assert_eq!(code, 3, "{name}: {said}");
        assert!(said.contains(what) && said.contains("preprocessor_config.json"), "{said}");
    }
}
