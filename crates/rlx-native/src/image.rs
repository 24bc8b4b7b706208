//! Pictures from files: PNG, JPEG, WebP and GIF (its first picture) as red, green and blue bytes.
//!
//! - Transparent pictures are laid over white, as transformers 5 does it.
//! - Of 16 bits the upper 8 are read.
//! - A photo is turned as its EXIF data says, as transformers' `load_image` does it.
//! - JPEG decoders differ by a step or so of 255 from each other; the other formats are exact.

use crate::files::map;
use image::codecs::png::PngEncoder;
use image::metadata::Orientation;
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageError, ImageFormat,
    ImageReader, Limits,
};
use rlx_core::image::{Image, LARGEST, LONGEST};
use rlx_core::{Code, Error, Result};
use std::io::Cursor;
use std::path::Path;

/// Most bytes that a decoder takes for itself: 8 of each pixel, and 200 MB more.
const DECODER_BYTES: u64 = LARGEST * 10;

const FORMATS: &str = "give a PNG, JPEG, WebP or GIF file";

/// Reads a picture.
///
/// # Errors
/// `Io` for a file that cannot be read; `BadFile` for one that is damaged, empty or too large; `Unsupported`
/// for other formats and for JPEG files of four inks.
pub fn read(path: &Path) -> Result<Image> {
    let bytes = map(path).map_err(|e| e.hint(FORMATS))?;
    decode((*bytes).as_ref()).map_err(|e| e.at(path.display().to_string()))
}

/// The same of a file's bytes.
///
/// # Errors
/// As [`read`].
pub fn decode(bytes: &[u8]) -> Result<Image> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|e| Error::new(Code::Io, format!("{e}")))?;
    let unknown = || {
        Error::new(Code::Unsupported, "the file is not an image in a supported format")
            .hint(FORMATS)
    };
    let format = reader.format().ok_or_else(unknown)?;
    if format == ImageFormat::Jpeg && jpeg_components(bytes) == Some(4) {
        let what = "a JPEG file of four inks (CMYK) is not supported";
        return Err(Error::new(Code::Unsupported, what).hint("save it as RGB"));
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(LONGEST);
    limits.max_image_height = Some(LONGEST);
    limits.max_alloc = Some(DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|e| refused(&e))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > LARGEST {
        let what = format!("a picture of {width} x {height} pixels is too large");
        return Err(Error::bad_file(what).hint(format!("at most {LARGEST} pixels are read")));
    }
    // Damaged EXIF data does not make a picture unreadable.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|e| refused(&e))?;
    picture.apply_orientation(orientation);
    rgb(picture)
}

fn refused(e: &ImageError) -> Error {
    match e {
        ImageError::Unsupported(e) => {
            Error::new(Code::Unsupported, format!("the picture is not supported: {e}"))
                .hint(FORMATS)
        }
        ImageError::Limits(_) => Error::bad_file("the picture is too large")
            .hint(format!("at most {LARGEST} pixels are read, and {LONGEST} along an edge")),
        e => Error::bad_file(format!("the picture cannot be read: {e}"))
            .hint("the file is damaged or incomplete"),
    }
}

/// A decoded picture as red, green and blue.
fn rgb(picture: DynamicImage) -> Result<Image> {
    let (width, height) = (picture.width(), picture.height());
    let upper = |values: &[u16]| values.iter().map(|v| (v >> 8) as u8).collect::<Vec<u8>>();
    let rgba = |grey: &[u8]| -> Vec<u8> {
        grey.as_chunks::<2>().0.iter().flat_map(|&[grey, a]| [grey, grey, grey, a]).collect()
    };
    match picture {
        DynamicImage::ImageLuma8(p) => Image::from_grey(width, height, p.as_raw()),
        DynamicImage::ImageLumaA8(p) => Image::from_rgba(width, height, &rgba(p.as_raw())),
        DynamicImage::ImageRgb8(p) => Image::new(width, height, p.into_raw()),
        DynamicImage::ImageRgba8(p) => Image::from_rgba(width, height, p.as_raw()),
        DynamicImage::ImageLuma16(p) => Image::from_grey(width, height, &upper(p.as_raw())),
        DynamicImage::ImageLumaA16(p) => Image::from_rgba(width, height, &rgba(&upper(p.as_raw()))),
        DynamicImage::ImageRgb16(p) => Image::new(width, height, upper(p.as_raw())),
        DynamicImage::ImageRgba16(p) => Image::from_rgba(width, height, &upper(p.as_raw())),
        _ => {
            Err(Error::new(Code::Unsupported, "pictures of floats are not supported").hint(FORMATS))
        }
    }
}

/// The bytes of a PNG file of a picture.
///
/// # Errors
/// `Internal` for an encoder that fails, which it does not in memory.
pub fn png(image: &Image) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let encoder = PngEncoder::new(&mut out);
    let (width, height) = (image.width(), image.height());
    encoder
        .write_image(image.pixels(), width, height, ExtendedColorType::Rgb8)
        .map_err(|e| Error::internal(format!("the picture cannot be written: {e}")))?;
    Ok(out)
}

/// How many components a JPEG file says that it has, in the first frame header of its segments.
fn jpeg_components(bytes: &[u8]) -> Option<u8> {
    let mut at = 2;
    loop {
        let &[0xff, marker] = bytes.get(at..)?.first_chunk::<2>()? else { return None };
        match marker {
            // A byte that fills.
            0xff => at += 1,
            // Markers that are no segments.
            0x01 | 0xd0..=0xd8 => at += 2,
            // The frame headers; c4, c8 and cc are something else.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return bytes.get(at + 9).copied();
            }
            0xd9 | 0xda => return None,
            _ => {
                let length = bytes.get(at + 2..)?.first_chunk::<2>()?;
                at += 2 + usize::from(u16::from_be_bytes(*length));
            }
        }
    }
}
