//! The shards of one model, put together.
//!
//! A split model is n files. Each has `split.no` (from 0), `split.count` and
//! `split.tensors.count` (of all shards); the first has the rest of the metadata. Shards may be
//! given in any order: `split.no` decides, not the name.

use super::header::{Header, TensorInfo};
use super::metadata::Metadata;
use super::place;
use crate::{Error, Result};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const HINT_OTHER: &str = "give the shards of one model";

/// A whole model: the metadata and every tensor of 1..n files.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFiles {
    /// The metadata of the first shard.
    pub metadata: Metadata,
    /// Each tensor with the index of its file, in the order that the caller gave the files.
    pub tensors: BTreeMap<String, (usize, TensorInfo)>,
    /// `order[n]` is the caller's index of the shard whose `split.no` is n.
    pub order: Vec<usize>,
    /// The files' names, in the order that the caller gave.
    pub files: Vec<String>,
}

/// What a header says of its place in a model.
struct Split {
    no: u32,
    count: u32,
    n_tensors: Option<u32>,
}

impl ModelFiles {
    /// Puts the headers of 1..n files together.
    ///
    /// # Errors
    ///
    /// `Usage` for no file; `BadFile` when a shard is missing, given twice, or of another model.
    pub fn new(headers: Vec<Header>) -> Result<Self> {
        let splits = headers.iter().map(split).collect::<Result<Vec<_>>>()?;
        let Some(first) = splits.first() else {
            return Err(Error::usage("no model file is given").hint("give a .gguf file"));
        };
        let name = |i: usize| headers[i].metadata.file();

        for (i, other) in splits.iter().enumerate().skip(1) {
            for (i, split) in [(0, first), (i, other)] {
                if split.count == 1 {
                    return Err(Error::bad_file("a whole model, not a shard, is among the files")
                        .at(name(i))
                        .hint("give one whole model, or the shards of one model"));
                }
            }
            if other.count != first.count {
                let what = format!(
                    "a shard of {} is among the shards of {}: they are of different models",
                    other.count, first.count
                );
                return Err(Error::bad_file(what).at(name(i)).hint(HINT_OTHER));
            }
            if other.n_tensors != first.n_tensors {
                let what = format!(
                    "split.tensors.count is {}, in {} it is {}: they are of different models",
                    count_text(other.n_tensors),
                    name(0),
                    count_text(first.n_tensors)
                );
                return Err(Error::bad_file(what).at(name(i)).hint(HINT_OTHER));
            }
            if let (Some(a), Some(b)) = (base(name(0)), base(name(i)))
                && a != b
            {
                let what = format!("a shard of {b} is among the shards of {a}");
                return Err(Error::bad_file(what).at(name(i)).hint(HINT_OTHER));
            }
        }

        let count = first.count;
        // `split.no` is below `count`; the map has one row a file, whatever `count` says.
        let mut by_no: BTreeMap<u32, usize> = BTreeMap::new();
        for (i, split) in splits.iter().enumerate() {
            if let Some(twice) = by_no.insert(split.no, i) {
                let what = format!(
                    "shard {} of {count} is given twice, also as {}",
                    split.no + 1,
                    name(twice)
                );
                return Err(Error::bad_file(what).at(name(i)).hint("give each shard once"));
            }
        }
        if by_no.len() as u64 != u64::from(count) {
            return Err(missing(&by_no, count).at(name(0)));
        }

        let order: Vec<usize> = by_no.into_values().collect();
        let mut tensors = BTreeMap::new();
        for &i in &order {
            for tensor in &headers[i].tensors {
                let old = tensors.insert(tensor.name.clone(), (i, tensor.clone()));
                if let Some((twice, _)) = old {
                    let what = format!("tensor {} is also in {}", tensor.name, name(twice));
                    let at = place(name(i), tensor.at);
                    return Err(Error::bad_file(what).at(at).hint(HINT_OTHER));
                }
            }
        }
        if let Some(needed) = first.n_tensors
            && tensors.len() as u64 != u64::from(needed)
        {
            let what = format!(
                "the {count} shards have {} tensors, split.tensors.count is {needed}",
                tensors.len()
            );
            return Err(Error::bad_file(what).at(name(order[0])).hint(HINT_OTHER));
        }

        let files = headers.iter().map(|header| header.metadata.file().to_string()).collect();
        let mut headers = headers;
        let metadata = headers.swap_remove(order[0]).metadata;
        Ok(Self { metadata, tensors, order, files })
    }

    /// A tensor with the index of its file.
    ///
    /// # Errors
    ///
    /// `BadFile` when there is none of that name.
    pub fn tensor(&self, name: &str) -> Result<&(usize, TensorInfo)> {
        self.tensors.get(name).ok_or_else(|| {
            Error::bad_file(format!("tensor {name} is missing"))
                .at(self.metadata.file())
                .hint("use a file that its converter finished, made for language models")
        })
    }

    /// An error about a tensor's shape or type; it names the byte of the dimensions.
    pub fn bad_tensor(&self, name: &str, what: impl Into<String>) -> Error {
        let at = match self.tensors.get(name) {
            Some((file, tensor)) => place(&self.files[*file], tensor.dims_at()),
            None => self.metadata.file().to_string(),
        };
        Error::bad_file(what).at(at).hint("convert the model again with a current converter")
    }

    /// Bytes of all tensors, padding left out.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.values().map(|(_, tensor)| tensor.bytes).sum()
    }
}

fn split(header: &Header) -> Result<Split> {
    let metadata = &header.metadata;
    let count = metadata.opt_u32("split.count")?.unwrap_or(1);
    let no = metadata.opt_u32("split.no")?.unwrap_or(0);
    if no >= count {
        let what = format!("split.no is {no}, split.count is {count}");
        return Err(metadata.bad_value("split.no", what));
    }
    Ok(Split { no, count, n_tensors: metadata.opt_u32("split.tensors.count")? })
}

fn count_text(n: Option<u32>) -> String {
    n.map_or_else(|| "missing".to_string(), |n| n.to_string())
}

/// "shards 2 and 4 of 5 are missing"; counts from 1, as file names do.
fn missing(have: &BTreeMap<u32, usize>, count: u32) -> Error {
    const SHOWN: usize = 8;
    let absent = (0..count).filter(|no| !have.contains_key(no)).map(|no| (no + 1).to_string());
    let mut list: Vec<String> = absent.take(SHOWN).collect();
    let n_absent = count as usize - have.len();
    if n_absent > SHOWN {
        list.push(format!("{} more", n_absent - SHOWN));
    }
    let what = if n_absent == 1 {
        format!("missing shard {} of {count}", list.join(", "))
    } else {
        format!("missing shards {} of {count}", list.join(", "))
    };
    Error::bad_file(what).hint("give all shards of the model, in any order")
}

/// The model's part of `path/<model>-00001-of-00003.gguf`; `None` for other names, of which a page
/// that was given blobs may have any.
fn base(file: &str) -> Option<&str> {
    let path = file.split(['?', '#']).next()?;
    let stem = path.rsplit(['/', '\\']).next()?.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (base, no) = rest.rsplit_once('-')?;
    let digits = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
    (digits(no) && digits(count)).then_some(base)
}
