//! Images on their way into a model, against what Pillow and transformers' processors made of them:
//! `tests/fixtures/images`, recorded by the script beside it.
#![cfg(feature = "vision")]

use rlx_core::Code;
use rlx_core::image::{Filter, Image, ImageProcessor, TargetSize, resized};
use rlx_core::safetensors::{Header, HeaderReader};
use std::path::Path;

struct Records {
    header: Header,
    bytes: Vec<u8>,
}

impl Records {
    fn open() -> Self {
        let path = "../../tests/fixtures/images/records.safetensors";
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let mut reader = HeaderReader::new(path, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        Records { header: reader.into_header().unwrap(), bytes }
    }

    fn get(&self, name: &str) -> (&[u64], &[u8]) {
        let t = &self.header.tensors[name];
        (&t.shape, &self.bytes[t.offset as usize..(t.offset + t.bytes) as usize])
    }

    /// A recorded image, of one, three or four bytes a pixel.
    fn image(&self, name: &str) -> Image {
        let (shape, bytes) = self.get(&format!("image.{name}"));
        let (height, width) = (shape[0] as u32, shape[1] as u32);
        match shape[2] {
            1 => Image::from_grey(width, height, bytes),
            3 => Image::new(width, height, bytes.to_vec()),
            _ => Image::from_rgba(width, height, bytes),
        }
        .unwrap()
    }

    fn named(&self, prefix: &str) -> Vec<Vec<String>> {
        let names = self.header.tensors.keys().filter_map(|n| n.strip_prefix(prefix));
        names.map(|n| n.split('.').map(str::to_owned).collect()).collect()
    }
}

#[test]
fn resized_images_have_the_bytes_of_pillow() {
    let records = Records::open();
    let all = records.named("resized.");
    assert_eq!(all.len(), 39);
    for parts in all {
        let [name, filter, size] = parts.as_slice() else { panic!("{parts:?}") };
        let (width, height) = size.split_once('x').unwrap();
        let filter = match filter.as_str() {
            "nearest" => Filter::Nearest,
            "bilinear" => Filter::Bilinear,
            _ => Filter::Bicubic,
        };
        let (width, height) = (width.parse().unwrap(), height.parse().unwrap());
        let got = resized(&records.image(name), width, height, filter).unwrap();
        let (_, want) = records.get(&format!("resized.{}", parts.join(".")));
        assert!(got.pixels() == want, "{parts:?}");
    }
}

#[test]
fn prepared_images_have_the_numbers_of_transformers() {
    let records = Records::open();
    let configs: serde_json::Value =
        serde_json::from_str(&records.header.metadata["configs"]).unwrap();
    let all = records.named("prepared.");
    assert_eq!(all.len(), 41);
    for parts in all {
        let [word, name] = parts.as_slice() else { panic!("{parts:?}") };
        let text = configs[word].to_string();
        let processor = ImageProcessor::read(text.as_bytes(), "p.json", "vit").unwrap();
        let got = processor.prepare(&records.image(name)).unwrap();
        let (shape, want) = records.get(&format!("prepared.{word}.{name}"));
        assert_eq!(shape, [3, u64::from(got.height), u64::from(got.width)], "{parts:?}");
        let got: Vec<u8> = got.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(got == want, "{parts:?}");
    }
}

#[test]
fn a_file_says_what_is_done_and_its_class_says_the_rest() {
    let read = |text: &str, family| ImageProcessor::read(text.as_bytes(), "p.json", family);
    let vit = read(r#"{"feature_extractor_type": "ViTFeatureExtractor", "size": 96}"#, "dinov2");
    let exact = TargetSize::Exact { height: 96, width: 96 };
    let vit = vit.unwrap();
    assert_eq!((vit.resize, vit.crop), (Some((exact, Filter::Bilinear)), None));
    assert_eq!(vit.normalise, Some([[0.5; 3]; 2]));
    // As facebook/dinov2-small is published.
    let text = r#"{
        "crop_size": {"height": 224, "width": 224}, "do_center_crop": true,
        "do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
        "image_mean": [0.485, 0.456, 0.406], "image_processor_type": "BitImageProcessor",
        "image_std": [0.229, 0.224, 0.225], "resample": 3,
        "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256}
    }"#;
    assert_eq!(read(text, "dinov2").unwrap(), ImageProcessor::of_family("dinov2", None));
    assert_eq!(read("{}", "vit").unwrap(), ImageProcessor::of_family("vit", None));
    let bit = read(r#"{"size": 30, "do_rescale": false, "crop_size": 28}"#, "dinov2").unwrap();
    let short = TargetSize::ShorterEdge(30);
    assert_eq!((bit.resize, bit.crop), (Some((short, Filter::Bicubic)), Some([28, 28])));
    assert_eq!(bit.rescale, None);
}

#[test]
fn what_makes_no_sense_in_a_file_is_refused_by_name() {
    for (text, code, what) in [
        ("[]", Code::BadFile, "no JSON object"),
        ("{", Code::BadFile, ""),
        (r#"{"size": 0}"#, Code::BadFile, "size"),
        (r#"{"size": -4}"#, Code::BadFile, "size"),
        (r#"{"size": 4294967295}"#, Code::BadFile, "size"),
        (r#"{"size": "large"}"#, Code::BadFile, "size"),
        (r#"{"size": {"height": 3}}"#, Code::BadFile, "size"),
        (r#"{"size": {"height": 3, "width": 3, "shortest_edge": 3}}"#, Code::BadFile, "size"),
        (r#"{"size": {"shortest_edge": 3, "longest_edge": 9}}"#, Code::Unsupported, "longest_edge"),
        (r#"{"crop_size": {"shortest_edge": 3}}"#, Code::BadFile, "crop_size"),
        (r#"{"resample": 5}"#, Code::Unsupported, "resample"),
        (r#"{"image_mean": [0.5, 0.5]}"#, Code::BadFile, "image_mean"),
        (r#"{"image_mean": "grey"}"#, Code::BadFile, "image_mean"),
        (r#"{"image_std": [0.5, 0.0, 0.5]}"#, Code::BadFile, "image_std"),
        (r#"{"rescale_factor": "1/255"}"#, Code::BadFile, "rescale_factor"),
        (r#"{"do_resize": 1}"#, Code::BadFile, "do_resize"),
        (r#"{"do_pad": true}"#, Code::Unsupported, "do_pad"),
        (r#"{"do_sparkle": true}"#, Code::Unsupported, "do_sparkle"),
        (r#"{"data_format": "channels_last"}"#, Code::Unsupported, "data_format"),
        (r#"{"image_processor_type": "CLIPImageProcessor"}"#, Code::Unsupported, "CLIP"),
    ] {
        let e = ImageProcessor::read(text.as_bytes(), "p.json", "vit").unwrap_err();
        assert_eq!(e.code, code, "{text}: {e}");
        assert!(e.what.contains(what) && e.at.contains("p.json"), "{text}: {e}");
    }
}

#[test]
fn images_that_would_become_too_large_are_refused() {
    let thin = Image::new(1, 1 << 20, vec![7; 3 << 20]).unwrap();
    // The longer edge would have 224 times as many pixels.
    let e = ImageProcessor::of_family("dinov2", None).prepare(&thin).unwrap_err();
    assert_eq!(e.code, Code::BadFile, "{e}");
    let huge = ImageProcessor {
        resize: None,
        crop: Some([1 << 20, 1 << 20]),
        rescale: None,
        normalise: None,
    };
    assert!(huge.prepare(&thin).unwrap_err().what.contains("too large"));
}
