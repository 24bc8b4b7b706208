//! What a model's maker did to images before the model saw them: `preprocessor_config.json`.

use super::resize::{Filter, resized};
use super::{Image, LONGEST};
use crate::error::{Code, Error, Result};
use crate::models::Keys;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Most pixels of what a model reads: 16 million.
const PREPARED: u64 = 1 << 24;

/// Mean and deviation of every colour, 0.5.
const HALVES: [[f64; 3]; 2] = [[0.5; 3]; 2];
/// Those of CLIP's images, which BiT's processor has where its file names none.
const CLIP: [[f64; 3]; 2] =
    [[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]];
/// Those of ImageNet, with which DINOv2 was trained.
pub(super) const IMAGENET: [[f64; 3]; 2] = [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]];

/// The size that an image is resized to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSize {
    /// Its own, whatever the image's proportions.
    Exact {
        /// Rows.
        height: u32,
        /// Pixels of a row.
        width: u32,
    },
    /// The shorter edge has so many pixels, and the image keeps its proportions.
    ShorterEdge(u32),
}

/// Makes a model's input of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageProcessor {
    /// The size that images get, and how.
    pub resize: Option<(TargetSize, Filter)>,
    /// Height and width of what is cut from the middle; black is added where the image is smaller.
    pub crop: Option<[u32; 2]>,
    /// Multiplies the bytes.
    pub rescale: Option<f64>,
    /// Mean and deviation of red, green and blue: `(x - mean) / deviation`.
    pub normalise: Option<[[f64; 3]; 2]>,
}

/// What a model reads of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// All of red, then all of green, then all of blue, each row by row: `[3, height, width]`.
    pub values: Vec<f32>,
    /// Rows.
    pub height: u32,
    /// Pixels of a row.
    pub width: u32,
}

impl ImageProcessor {
    /// What a family's models use where a folder does not say: `size` pixels along both edges, 224 if
    /// there is no size. Of DINOv2 the middle of an image, of others the whole.
    pub fn of_family(family: &str, size: Option<u32>) -> Self {
        let size = size.unwrap_or(224);
        if family.starts_with("dinov2") {
            // As published: 224 of 256, of whatever size.
            let edge = (u64::from(size) * 256 / 224).min(u64::from(u32::MAX)) as u32;
            return ImageProcessor {
                resize: Some((TargetSize::ShorterEdge(edge), Filter::Bicubic)),
                crop: Some([size; 2]),
                rescale: Some(1.0 / 255.0),
                normalise: Some(IMAGENET),
            };
        }
        ImageProcessor {
            resize: Some((TargetSize::Exact { height: size, width: size }, Filter::Bilinear)),
            crop: None,
            rescale: Some(1.0 / 255.0),
            normalise: Some(HALVES),
        }
    }

    /// Reads a `preprocessor_config.json`, every key of it: one of ViT's or BiT's image processors. `file`
    /// is its name in errors; `family` is the model's, for a file that does not say whose processor it is.
    ///
    /// # Errors
    /// `BadFile` for what is no JSON object and for values that make no sense; `Unsupported` for other
    /// processors, and for keys and values that this version does not know.
    pub fn read(text: &[u8], file: &str, family: &str) -> Result<Self> {
        let json = Json::parse(text, file, 0)?;
        let keys = Keys::json(&json, file)?;
        // What only programs in Python read.
        keys.inert(&["processor_class", "_valid_processor_keys", "do_convert_rgb", "backend"]);
        let is_bit = kind(&keys, family)?;
        if let Some(other) = keys.opt_str("data_format")?.filter(|&f| f != "channels_first") {
            let what = format!("data_format `{other}` is not supported");
            return Err(keys.unsupported("data_format", what, "supported: channels_first"));
        }
        keys.neutral(&[("do_pad", 0.0, "pads images to one size")])?;
        let flag = |name: &str, default: bool| -> Result<bool> {
            Ok(keys.opt_bool(name)?.unwrap_or(default))
        };
        let square = flag("default_to_square", !is_bit)?;
        let filter = match keys.opt_u64("resample")? {
            None if is_bit => Filter::Bicubic,
            None => Filter::Bilinear,
            Some(0) => Filter::Nearest,
            Some(2) => Filter::Bilinear,
            Some(3) => Filter::Bicubic,
            Some(n) => {
                return Err(keys.unsupported(
                    "resample",
                    format!("resample {n} is not supported"),
                    "supported: 0 (nearest), 2 (bilinear), 3 (bicubic)",
                ));
            }
        };
        let usual = match is_bit {
            true => TargetSize::ShorterEdge(224),
            false => TargetSize::Exact { height: 224, width: 224 },
        };
        let size = size_at(&keys, "size", square)?.unwrap_or(usual);
        let crop = match size_at(&keys, "crop_size", true)? {
            None => [224; 2],
            Some(TargetSize::Exact { height, width }) => [height, width],
            Some(TargetSize::ShorterEdge(_)) => {
                return Err(keys.bad("crop_size", "crop_size has no height and width"));
            }
        };
        let factor = keys.opt_f64("rescale_factor")?.unwrap_or(1.0 / 255.0);
        let [mean, deviation] = if is_bit { CLIP } else { HALVES };
        let mean = colours(&keys, "image_mean", mean)?;
        let deviation = colours(&keys, "image_std", deviation)?;
        if deviation.iter().any(|&x| x as f32 == 0.0) {
            return Err(keys.bad("image_std", "image_std has a 0, by which nothing is divided"));
        }
        let processor = ImageProcessor {
            resize: flag("do_resize", true)?.then_some((size, filter)),
            crop: flag("do_center_crop", is_bit)?.then_some(crop),
            rescale: flag("do_rescale", true)?.then_some(factor),
            normalise: flag("do_normalize", true)?.then_some([mean, deviation]),
        };
        keys.finish()?;
        Ok(processor)
    }

    /// The numbers of an image, as transformers' processors that use Pillow compute them.
    ///
    /// # Errors
    /// `BadFile` for an image that would be too large, or have no pixels, on the way.
    pub fn prepare(&self, image: &Image) -> Result<Pixels> {
        let sized;
        let mut from = image;
        if let Some((size, filter)) = self.resize {
            let (width, height) = size.of(image)?;
            sized = resized(image, width, height, filter)?;
            from = &sized;
        }
        let [height, width] = self.crop.unwrap_or([from.height(), from.width()]);
        if u64::from(height) * u64::from(width) > PREPARED {
            let what = format!("an input of {width} x {height} pixels is too large for a model");
            return Err(Error::bad_file(what).hint(format!("at most {PREPARED} pixels are read")));
        }
        // What each byte becomes, for every colour.
        let tables = tables(self.rescale, self.normalise);
        let edge = |whole: u32, part: u32| (i64::from(whole) - i64::from(part)).div_euclid(2);
        let (top, left) = (edge(from.height(), height), edge(from.width(), width));
        let (all, _) = from.pixels().as_chunks::<3>();
        let area = height as usize * width as usize;
        let mut values = vec![0.0; area * 3];
        let at = |y: u32, x: u32| -> Option<&[u8; 3]> {
            let y = u32::try_from(i64::from(y) + top).ok().filter(|&y| y < from.height())?;
            let x = u32::try_from(i64::from(x) + left).ok().filter(|&x| x < from.width())?;
            all.get(y as usize * from.width() as usize + x as usize)
        };
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        for (i, (y, x)) in places.enumerate() {
            let pixel = at(y, x).unwrap_or(&[0; 3]);
            for (c, &byte) in pixel.iter().enumerate() {
                values[c * area + i] = tables[c][usize::from(byte)];
            }
        }
        Ok(Pixels { values, height, width })
    }
}

impl TargetSize {
    /// Width and height of an image that is resized so.
    fn of(self, image: &Image) -> Result<(u32, u32)> {
        let short = match self {
            TargetSize::Exact { height, width } => return Ok((width, height)),
            TargetSize::ShorterEdge(short) => short,
        };
        let (width, height) = (u64::from(image.width()), u64::from(image.height()));
        let long = u64::from(short) * width.max(height) / width.min(height);
        // The image itself has an edge that is longer by far than the other: resizing refuses the rest.
        let long = u32::try_from(long).unwrap_or(u32::MAX);
        Ok(if width <= height { (short, long) } else { (long, short) })
    }
}

/// Whether the processor is BiT's; else it is ViT's.
fn kind(keys: &Keys<'_>, family: &str) -> Result<bool> {
    const NAMES: [&str; 2] = ["image_processor_type", "feature_extractor_type"];
    let mut names = Vec::new();
    for key in NAMES {
        names.extend(keys.opt_str(key)?.map(|name| (key, name)));
    }
    let Some(&(key, name)) = names.first() else { return Ok(family.starts_with("dinov2")) };
    let base = ["Fast", "Pil"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    match base {
        "BitImageProcessor" | "BitFeatureExtractor" => Ok(true),
        "ViTImageProcessor" | "ViTFeatureExtractor" => Ok(false),
        _ => Err(keys.unsupported(
            key,
            format!("{key} `{name}` is not supported"),
            "supported: ViTImageProcessor, BitImageProcessor",
        )),
    }
}

/// A size: a number, or an object with `height` and `width`, or with `shortest_edge`.
pub(super) fn size_at(keys: &Keys<'_>, name: &str, square: bool) -> Result<Option<TargetSize>> {
    let edge = |keys: &Keys<'_>, name: &str, n: u64| match u32::try_from(n) {
        Ok(n) if (1..=LONGEST).contains(&n) => Ok(n),
        _ => Err(keys.bad(name, format!("{name} is {n}, expected 1 to {LONGEST} pixels"))),
    };
    let inner = match keys.object(name) {
        Ok(Some(inner)) => inner,
        Ok(None) => return Ok(None),
        Err(e) if e.code != Code::BadFile => return Err(e),
        // No object: a number, or an error that says so.
        Err(_) => {
            let Some(n) = keys.opt_u64(name)? else { return Ok(None) };
            let n = edge(keys, name, n)?;
            let both = TargetSize::Exact { height: n, width: n };
            return Ok(Some(if square { both } else { TargetSize::ShorterEdge(n) }));
        }
    };
    let get = |part: &str| -> Result<Option<u32>> {
        inner.opt_u64(part)?.map(|n| edge(&inner, part, n)).transpose()
    };
    match (get("height")?, get("width")?, get("shortest_edge")?) {
        (Some(height), Some(width), None) => Ok(Some(TargetSize::Exact { height, width })),
        (None, None, Some(short)) => Ok(Some(TargetSize::ShorterEdge(short))),
        _ => {
            let what = format!("{name} has neither height and width nor shortest_edge alone");
            Err(keys.bad(name, what))
        }
    }
}

/// What each byte of each colour becomes.
pub(super) fn tables(rescale: Option<f64>, normalise: Option<[[f64; 3]; 2]>) -> [[f32; 256]; 3] {
    let of = |colour: usize, byte: usize| {
        let x = match rescale {
            Some(factor) => (byte as f64 * factor) as f32,
            None => byte as f32,
        };
        match normalise {
            Some([mean, deviation]) => (x - mean[colour] as f32) / deviation[colour] as f32,
            None => x,
        }
    };
    [0, 1, 2].map(|colour| core::array::from_fn(|byte| of(colour, byte)))
}

/// A number of each colour: one for all, or three.
pub(super) fn colours(keys: &Keys<'_>, name: &str, default: [f64; 3]) -> Result<[f64; 3]> {
    let Ok(Some(list)) = keys.opt_f64s(name) else {
        return Ok(keys.opt_f64(name)?.map_or(default, |x| [x; 3]));
    };
    <[f64; 3]>::try_from(list.as_slice())
        .map_err(|_| keys.bad(name, format!("{name} has {} numbers, expected 3", list.len())))
}
