//! Images on their way into a segmenting model, and its masks on their way back, against what transformers'
//! processors made of them: `tests/fixtures/images/sam.safetensors`, recorded by the script beside it.
#![cfg(feature = "vision")]

use rlx_core::Code;
use rlx_core::image::{Filter, Image, SamProcessor};
use rlx_core::safetensors::{Header, HeaderReader};
use std::path::Path;

const EDGE: u32 = 32;

struct Records {
    header: Header,
    bytes: Vec<u8>,
}

impl Records {
    fn open() -> Self {
        let path = "../../tests/fixtures/images/sam.safetensors";
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let mut reader = HeaderReader::new(path, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        Records { header: reader.into_header().unwrap(), bytes }
    }

    fn get(&self, name: &str) -> (&[u64], &[u8]) {
        let t = &self.header.tensors[name];
        (&t.shape, &self.bytes[t.offset as usize..(t.offset + t.bytes) as usize])
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.get(name).1.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
}

/// Most that two lists of numbers differ by.
fn off(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn squares_and_masks_are_as_the_makers_have_them() {
    let records = Records::open();
    let mask = records.floats("mask");
    for name in ["wide", "tall", "small", "square"] {
        let (shape, bytes) = records.get(&format!("image.{name}"));
        let image = Image::new(shape[1] as u32, shape[0] as u32, bytes.to_vec()).unwrap();
        // SAM 2's processor has torchvision's bytes, a step of 1/255/0.224 from Pillow's here and there.
        for (family, most) in [("sam", 1e-6), ("sam2", 0.0176)] {
            let processor = SamProcessor::of_family(family, EDGE);
            let (made, fit) = processor.prepare(&image).unwrap();
            assert_eq!((made.width, made.height), (EDGE, EDGE));
            let off = off(&made.values, &records.floats(&format!("{family}.{name}")));
            println!("{family} {name}: {off:e}");
            assert!(off <= most, "{family} {name}: {off:e}");
            let covered = fit.covered(&mask, 8).unwrap();
            let (shape, want) = records.get(&format!("{family}_mask.{name}"));
            assert_eq!(shape, [u64::from(image.height()), u64::from(image.width())]);
            let differ = covered.iter().zip(want).filter(|&(&a, &b)| u8::from(a) != b).count();
            assert_eq!((covered.len(), differ), (want.len(), 0), "{family} {name}");
            assert!(want.contains(&0) && want.contains(&1));
        }
    }
}

#[test]
fn published_files_are_read_key_by_key() {
    // As facebook/sam-vit-base and facebook/sam2.1-hiera-tiny are published.
    let sam = r#"{
        "do_convert_rgb": true, "do_normalize": true, "do_pad": true, "do_rescale": true, "do_resize": true,
        "image_mean": [0.485, 0.456, 0.406], "image_processor_type": "SamImageProcessor",
        "image_std": [0.229, 0.224, 0.225], "pad_size": {"height": 1024, "width": 1024},
        "processor_class": "SamProcessor", "resample": 2, "rescale_factor": 0.00392156862745098,
        "size": {"longest_edge": 1024}
    }"#;
    let sam2 = r#"{
        "crop_size": null, "data_format": "channels_first", "default_to_square": true, "device": null,
        "disable_grouping": null, "do_center_crop": null, "do_convert_rgb": true, "do_normalize": true,
        "do_rescale": true, "do_resize": true, "image_mean": [0.485, 0.456, 0.406],
        "image_processor_type": "Sam2ImageProcessorFast", "image_std": [0.229, 0.224, 0.225],
        "input_data_format": null, "mask_size": {"height": 256, "width": 256},
        "processor_class": "Sam2VideoProcessor", "resample": 2, "rescale_factor": 0.00392156862745098,
        "return_tensors": null, "size": {"height": 1024, "width": 1024}
    }"#;
    // As transformers writes what it has for SAM 3, within the file of a processor of words too.
    let sam3 = r#"{
        "image_processor": {
            "do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
            "image_mean": [0.5, 0.5, 0.5], "image_processor_type": "Sam3ImageProcessor",
            "image_std": [0.5, 0.5, 0.5], "mask_size": {"height": 288, "width": 288}, "resample": 2,
            "rescale_factor": 0.00392156862745098, "size": {"height": 1024, "width": 1024}
        },
        "point_pad_value": -10, "processor_class": "Sam3Processor", "target_size": 1024
    }"#;
    let read = SamProcessor::of_family("sam3", 1024);
    assert_eq!((read.stretch, read.normalise), (true, Some([[0.5; 3]; 2])));
    for (text, family) in [
        (sam, "sam"),
        (sam2, "sam2"),
        (sam3, "sam3"),
        ("{}", "sam"),
        ("{}", "sam2"),
        ("{}", "sam3"),
    ] {
        let read = SamProcessor::read(text.as_bytes(), "p.json", family, 1024).unwrap();
        assert_eq!(read, SamProcessor::of_family(family, 1024));
    }
    // Whose processor it is stands in the file.
    assert!(SamProcessor::read(sam2.as_bytes(), "p.json", "sam", 1024).unwrap().stretch);
    let text = r#"{"resample": 3, "do_rescale": false, "do_normalize": false, "size": 64}"#;
    let read = SamProcessor::read(text.as_bytes(), "p.json", "sam", 64).unwrap();
    assert_eq!((read.filter, read.rescale, read.normalise), (Filter::Bicubic, None, None));
}

#[test]
fn what_makes_no_sense_in_a_file_is_refused_by_name() {
    for (text, code, what) in [
        ("[]", Code::BadFile, "no JSON object"),
        (r#"{"size": {"longest_edge": 63}}"#, Code::BadFile, "size is not 64"),
        (r#"{"size": {"longest_edge": 4294967360}}"#, Code::BadFile, "longest_edge"),
        (r#"{"size": {"longest_edge": 64, "sparkle": 1}}"#, Code::Unsupported, "sparkle"),
        (r#"{"size": {"longest_edge": -1}}"#, Code::BadFile, "longest_edge"),
        (r#"{"size": {"height": 64, "width": 63}}"#, Code::BadFile, "size is not 64"),
        (r#"{"pad_size": {"height": 128, "width": 128}}"#, Code::BadFile, "pad_size is not 64"),
        (r#"{"pad_size": {"longest_edge": 64}}"#, Code::BadFile, "pad_size"),
        (r#"{"do_resize": false}"#, Code::Unsupported, "do_resize"),
        (r#"{"do_pad": false}"#, Code::Unsupported, "do_pad"),
        (r#"{"do_center_crop": true}"#, Code::Unsupported, "do_center_crop"),
        (r#"{"do_pad": 1}"#, Code::BadFile, "do_pad"),
        (
            r#"{"image_processor_type": "Sam2ImageProcessor", "do_pad": true}"#,
            Code::Unsupported,
            "pad",
        ),
        (r#"{"image_processor_type": "ViTImageProcessor"}"#, Code::Unsupported, "ViT"),
        (r#"{"image_std": [0.5, 0.0, 0.5]}"#, Code::BadFile, "image_std"),
        (r#"{"resample": 1}"#, Code::Unsupported, "resample"),
        (r#"{"image_processor": {"sparkle": 1}}"#, Code::Unsupported, "sparkle"),
        (r#"{"image_processor": 1}"#, Code::BadFile, "image_processor"),
        (r#"{"data_format": "channels_last"}"#, Code::Unsupported, "data_format"),
        (r#"{"do_sparkle": true}"#, Code::Unsupported, "do_sparkle"),
    ] {
        let e = SamProcessor::read(text.as_bytes(), "p.json", "sam", 64).unwrap_err();
        assert_eq!(e.code, code, "{text}: {e}");
        assert!(e.what.contains(what) && e.at.contains("p.json"), "{text}: {e}");
    }
    let thin = Image::new(1, 1 << 20, vec![7; 3 << 20]).unwrap();
    let e = SamProcessor::of_family("sam", 64).prepare(&thin).unwrap_err();
    assert!(e.what.contains("too thin"), "{e}");
    let endless = SamProcessor::of_family("sam2", u32::MAX).prepare(&thin).unwrap_err();
    assert_eq!(endless.code, Code::BadFile, "{endless}");
}
