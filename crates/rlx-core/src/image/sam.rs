//! What Segment Anything's makers did to images: `preprocessor_config.json` of SAM, SAM 2 and SAM 3, or the same within
//! a `processor_config.json`.

use super::processor::{IMAGENET, Pixels, TargetSize, colours, size_at, tables};
use super::resize::{Filter, resized};
use super::{Image, SquareFit};
use crate::error::Result;
use crate::models::Keys;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::vec;

/// Makes the square that a segmenting model sees of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct SamProcessor {
    /// Pixels along the square's edge.
    pub edge: u32,
    /// Whether images fill the square whatever their proportions (SAM 2 and 3); else they keep them, and zeros are
    /// added at the bottom or the right (SAM).
    pub stretch: bool,
    /// How the image is resized.
    pub filter: Filter,
    /// Multiplies the bytes.
    pub rescale: Option<f64>,
    /// Mean and deviation of red, green and blue: `(x - mean) / deviation`.
    pub normalise: Option<[[f64; 3]; 2]>,
}

/// The mean and the deviation of SAM 3: bytes become -1 to 1.
const HALVES: [[f64; 3]; 2] = [[0.5; 3]; 2];

/// What only programs in Python read, or what is for recorded masks and not for images.
const INERT: &[&str] = &[
    "processor_class",
    "_valid_processor_keys",
    "do_convert_rgb",
    "backend",
    "mask_size",
    "mask_pad_size",
    "default_to_square",
    "device",
    "disable_grouping",
    "input_data_format",
    "return_tensors",
    "crop_size",
];

impl SamProcessor {
    /// What a family's models use where a folder does not say, for a model that sees `edge x edge` pixels.
    pub fn of_family(family: &str, edge: u32) -> Self {
        SamProcessor {
            edge,
            stretch: family != "sam",
            filter: Filter::Bilinear,
            rescale: Some(1.0 / 255.0),
            normalise: Some(if family == "sam3" { HALVES } else { IMAGENET }),
        }
    }

    /// Reads a `preprocessor_config.json`, every key of it, for a model that sees `edge x edge` pixels. Of a
    /// `processor_config.json` that is its `image_processor`; the others are for what is no image. `file` is its name
    /// in errors; `family` is the model's, for a file that does not say whose processor it is.
    ///
    /// # Errors
    /// `BadFile` for what is no JSON object, for values that make no sense and for a square of another size;
    /// `Unsupported` for other processors, and for keys and values that this version does not know.
    pub fn read(text: &[u8], file: &str, family: &str, edge: u32) -> Result<Self> {
        let json = Json::parse(text, file, 0)?;
        let whole = Keys::json(&json, file)?;
        let keys = match whole.has("image_processor") {
            true => whole.object("image_processor")?.unwrap_or(whole),
            false => whole,
        };
        keys.inert(INERT);
        let family = maker(&keys, family)?;
        let mut processor = Self::of_family(family, edge);
        let stretch = processor.stretch;
        if let Some(other) = keys.opt_str("data_format")?.filter(|&f| f != "channels_first") {
            let what = format!("data_format `{other}` is not supported");
            return Err(keys.unsupported("data_format", what, "supported: channels_first"));
        }
        for (name, need, changes) in [
            ("do_resize", true, "leaves images in their own size"),
            ("do_center_crop", false, "cuts images"),
            ("do_pad", !stretch, "pads images otherwise than the model's makers did"),
        ] {
            if keys.opt_bool(name)?.is_some_and(|have| have != need) {
                let what = format!("{name} is {}: it {changes}, which is not supported", !need);
                return Err(keys.unsupported(name, what, "use the file that belongs to the model"));
            }
        }
        processor.filter = match keys.opt_u64("resample")? {
            Some(0) => Filter::Nearest,
            None | Some(2) => Filter::Bilinear,
            Some(3) => Filter::Bicubic,
            Some(n) => {
                let what = format!("resample {n} is not supported");
                let known = "supported: 0 (nearest), 2 (bilinear), 3 (bicubic)";
                return Err(keys.unsupported("resample", what, known));
            }
        };
        // SAM names the longer edge and what is filled up, SAM 2 both edges.
        for (name, longer) in [("size", !stretch), ("pad_size", false)] {
            let has = match keys.object(name) {
                Ok(Some(size)) if longer && size.has("longest_edge") => {
                    size.positive("longest_edge")? == u64::from(edge)
                }
                _ => size_at(&keys, name, true)?
                    .is_none_or(|size| size == TargetSize::Exact { height: edge, width: edge }),
            };
            if !has {
                let what = format!("{name} is not {edge} pixels, which is what the model sees");
                return Err(keys.bad(name, what));
            }
        }
        let flag = |name: &str| keys.opt_bool(name).map(|on| on.unwrap_or(true));
        let factor = keys.opt_f64("rescale_factor")?.unwrap_or(1.0 / 255.0);
        processor.rescale = flag("do_rescale")?.then_some(factor);
        let [mean, deviation] = processor.normalise.unwrap_or(IMAGENET);
        let mean = colours(&keys, "image_mean", mean)?;
        let deviation = colours(&keys, "image_std", deviation)?;
        if deviation.iter().any(|&x| x as f32 == 0.0) {
            return Err(keys.bad("image_std", "image_std has a 0, by which nothing is divided"));
        }
        processor.normalise = flag("do_normalize")?.then_some([mean, deviation]);
        keys.finish()?;
        Ok(processor)
    }

    /// Where an image is in the square.
    ///
    /// # Errors
    /// As [`SquareFit::new`].
    pub fn fit(&self, image: &Image) -> Result<SquareFit> {
        let size = [image.width(), image.height()];
        match self.stretch {
            true => SquareFit::stretched(size, self.edge),
            false => SquareFit::new(size, self.edge),
        }
    }

    /// The square of an image, and where the image is in it. What is filled up is 0 after all else.
    ///
    /// # Errors
    /// As [`SquareFit::new`]; `BadFile` for an image that would be too large on the way.
    pub fn prepare(&self, image: &Image) -> Result<(Pixels, SquareFit)> {
        let fit = self.fit(image)?;
        let sized = resized(image, fit.fitted[0], fit.fitted[1], self.filter)?;
        let tables = tables(self.rescale, self.normalise);
        let edge = self.edge as usize;
        let mut values = vec![0.0; edge * edge * 3];
        let (pixels, _) = sized.pixels().as_chunks::<3>();
        let rows = pixels.chunks_exact(sized.width() as usize);
        for (colour, table) in tables.iter().enumerate() {
            let plane = values[colour * edge * edge..].chunks_exact_mut(edge);
            for (out, row) in plane.zip(rows.clone()) {
                for (out, pixel) in out.iter_mut().zip(row) {
                    *out = table[usize::from(pixel[colour])];
                }
            }
        }
        Ok((Pixels { values, height: self.edge, width: self.edge }, fit))
    }
}

/// The family whose processor it is: the file's, or the model's where it does not say.
fn maker<'a>(keys: &Keys<'_>, family: &'a str) -> Result<&'a str> {
    const NAMES: [&str; 2] = ["image_processor_type", "feature_extractor_type"];
    let mut found = None;
    for key in NAMES {
        let name = keys.opt_str(key)?.map(|name| (key, name));
        found = found.or(name);
    }
    let Some((key, name)) = found else { return Ok(family) };
    let base = ["Fast", "Pil"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    match base {
        "SamImageProcessor" => Ok("sam"),
        "Sam2ImageProcessor" => Ok("sam2"),
        "Sam3ImageProcessor" => Ok("sam3"),
        _ => {
            let what = format!("{key} `{name}` is not supported");
            let known = "supported for this model: SamImageProcessor, Sam2ImageProcessor, \
                         Sam3ImageProcessor";
            Err(keys.unsupported(key, what, known))
        }
    }
}
