//! One GGUF file into shards, and shards into one file. Tensor bytes pass through unseen.

use crate::files::ModelSource;
use crate::new_file::{NewFile, create_gguf};
use rlx_core::gguf::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, Stream, TensorInfo, TensorSpec, Value, Writer,
};
use rlx_core::{Error, Result};
use std::path::{Path, PathBuf};

/// What a shard's header says of its place; the rest of the metadata stands in the first.
const SPLIT_KEYS: [&str; 3] = ["split.no", "split.tensors.count", "split.count"];
/// Shards that `split.count`, a u16, can say.
const SHARDS_MAX: usize = u16::MAX as usize;
/// Bytes handed on at once.
const PIECE: usize = 4 << 20;

/// When a shard is full. The first limit that is met begins the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLimits {
    /// Bytes of a shard's tensors with their padding; a tensor that is larger stands alone.
    pub bytes: u64,
    /// Tensors of a shard, at least 1.
    pub tensors: usize,
}

/// Writes `source` as `<prefix>-00001-of-0000n.gguf` and on. `progress` is told bytes so far and of
/// how many. No name is taken before every shard is whole. Returns the shards' paths.
///
/// # Errors
/// `Usage` for a source of several files, limits that give more than 65,535 shards, and
/// files in the way; `Io` where they cannot be written.
pub fn split(
    source: &ModelSource,
    prefix: &Path,
    limits: SplitLimits,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<PathBuf>> {
    let metadata = metadata(source);
    if source.maps.len() > 1 {
        return Err(Error::usage(format!("the model is already in {} shards", source.maps.len()))
            .at(source.files.metadata.file())
            .hint("put them together first: `rlx merge`"));
    }
    let tensors = tensors(source);
    let alignment = source.files.metadata.opt_u32(ALIGNMENT_KEY)?;
    let groups = groups(&tensors, limits, u64::from(alignment.unwrap_or(DEFAULT_ALIGNMENT)));
    if groups.len() > SHARDS_MAX {
        let what = format!("the limits give {} shards, at most are {SHARDS_MAX}", groups.len());
        return Err(Error::usage(what).hint("give a larger --max-size"));
    }
    let name = prefix.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::usage("the prefix is no name of a file").at(prefix.display().to_string())
    })?;
    let total = source.files.tensor_bytes();
    let (mut done, mut paths, mut written) = (0, Vec::new(), Vec::new());
    for (no, group) in groups.iter().enumerate() {
        let mut pairs = match no {
            0 => metadata.clone(),
            // Offsets of every shard keep the multiple that the file has.
            _ => alignment.map(|n| (ALIGNMENT_KEY.to_owned(), Value::U32(n))).into_iter().collect(),
        };
        let [no_key, tensors_key, count_key] = SPLIT_KEYS.map(str::to_owned);
        pairs.push((no_key, Value::U16(no as u16)));
        // A header of 2^31 tensors would have 70 GB.
        pairs.push((tensors_key, Value::I32(tensors.len() as i32)));
        pairs.push((count_key, Value::U16(groups.len() as u16)));
        let path =
            prefix.with_file_name(format!("{name}-{:05}-of-{:05}.gguf", no + 1, groups.len()));
        let mut stream = create_gguf(&path, &pairs, &specs(group), force)?;
        copy(source, group, &mut stream, &mut |n| {
            done += n;
            progress(done, total);
        })?;
        written.push(stream.end()?);
        paths.push(path);
    }
    written.into_iter().try_for_each(NewFile::commit)?;
    Ok(paths)
}

/// Writes the shards of `source` as one file, tensors in the shards' order and the metadata of the
/// first without the `split.*` keys. `progress` is told bytes so far and of how many. Returns the
/// file's size.
///
/// # Errors
/// `Usage` where a file is in the way; `Io` where it cannot be written.
pub fn merge(
    source: &ModelSource,
    out: &Path,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64> {
    let tensors = tensors(source);
    let mut stream = create_gguf(out, &metadata(source), &specs(&tensors), force)?;
    let bytes = Writer::file_bytes(stream.layout());
    let (mut done, total) = (0, source.files.tensor_bytes());
    copy(source, &tensors, &mut stream, &mut |n| {
        done += n;
        progress(done, total);
    })?;
    stream.end()?.commit()?;
    Ok(bytes)
}

/// The model's metadata in the file's order, what says of shards left out.
pub(crate) fn metadata(source: &ModelSource) -> Vec<(String, Value)> {
    let mut entries: Vec<_> = source.files.metadata.iter().collect();
    entries.sort_by_key(|(_, entry)| entry.at);
    let whole = entries.into_iter().filter(|(key, _)| !SPLIT_KEYS.contains(key));
    whole.map(|(key, entry)| (key.to_owned(), entry.value.clone())).collect()
}

/// The tensors with their files, in the order of the shards and of their headers.
pub(crate) fn tensors(source: &ModelSource) -> Vec<&(usize, TensorInfo)> {
    let mut place = vec![0; source.files.order.len()];
    for (no, &file) in source.files.order.iter().enumerate() {
        place[file] = no;
    }
    let mut tensors: Vec<_> = source.files.tensors.values().collect();
    tensors.sort_by_key(|(file, tensor)| (place[*file], tensor.at));
    tensors
}

fn specs(tensors: &[&(usize, TensorInfo)]) -> Vec<TensorSpec> {
    let spec = |(_, t): &&(usize, TensorInfo)| TensorSpec {
        name: t.name.clone(),
        dtype: t.dtype,
        dims: t.dims.clone(),
    };
    tensors.iter().map(spec).collect()
}

/// Cuts the list where a limit is met. There is always a first shard: it has the metadata.
fn groups<'a>(
    tensors: &[&'a (usize, TensorInfo)],
    limits: SplitLimits,
    alignment: u64,
) -> Vec<Vec<&'a (usize, TensorInfo)>> {
    let (mut groups, mut bytes) = (vec![Vec::new()], 0u64);
    for tensor in tensors {
        // A tensor of a header that was read is far from 64 bits.
        let n = tensor.1.bytes.next_multiple_of(alignment.max(1));
        let full = groups.last().is_some_and(|group: &Vec<_>| {
            group.len() >= limits.tensors.max(1) || (!group.is_empty() && bytes + n > limits.bytes)
        });
        if full {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += n;
        if let Some(group) = groups.last_mut() {
            group.push(*tensor);
        }
    }
    groups
}

fn copy(
    source: &ModelSource,
    tensors: &[&(usize, TensorInfo)],
    stream: &mut Stream<NewFile>,
    told: &mut dyn FnMut(u64),
) -> Result<()> {
    for (file, tensor) in tensors {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        let bytes = source.maps.get(*file).and_then(|map| (**map).as_ref().get(range));
        let bytes = bytes.ok_or_else(|| {
            Error::internal(format!("tensor {} is outside its file", tensor.name))
        })?;
        for piece in bytes.chunks(PIECE) {
            stream.write(piece)?;
            told(piece.len() as u64);
        }
    }
    Ok(())
}
