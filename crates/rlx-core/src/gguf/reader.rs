//! The push parser of a header.
//!
//! Bytes arrive in chunks of any size. The reader takes one unit at a time (the magic, a pair, a
//! run of array elements, a tensor's description); a unit that is not whole yet is read again from
//! its start when more bytes are in, which costs little since a unit's first fields are short.
//! Memory grows only with bytes that have arrived: no count of the file is trusted.

use super::cursor::{Cursor, Step, Stop};
use super::fields::{bool_of, count, magic, numbers, scalar, tensor_info, version};
use super::header::{Header, TensorInfo};
use super::metadata::{Entry, Metadata};
use super::value::{Array, Kind, Value};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, HINT_PAST_END, KEY_BYTES_MAX, align_up, place};
use crate::intake::Intake;
use crate::{Code, Error, Result};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Bytes of the shortest tensor description: a name of one byte, one dimension.
const INFO_BYTES_MIN: u64 = 8 + 1 + 4 + 8 + 4 + 8;
/// Bytes of the shortest pair: an empty key, a value of one byte.
const PAIR_BYTES_MIN: u64 = 8 + 4 + 1;

/// What [`HeaderReader::push`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The header goes on.
    NeedMore,
    /// The header is whole: [`HeaderReader::header`] has it.
    Done,
}

/// Reads the header of one GGUF file from pushed bytes.
#[derive(Clone, Debug)]
pub struct HeaderReader {
    input: Intake<Header>,
    /// The byte of the file at which what is not parsed begins.
    at: u64,
    state: State,
    version: u32,
    n_tensors: u64,
    n_pairs: u64,
    entries: BTreeMap<String, Entry>,
    tensors: Vec<TensorInfo>,
    names: BTreeSet<String>,
}

/// The unit to be read next.
#[derive(Clone, Debug)]
enum State {
    Magic,
    Version,
    Counts,
    Pair,
    Elements(Elements),
    Info,
    Done,
}

/// An array of which elements are missing.
#[derive(Clone, Debug)]
struct Elements {
    key: String,
    value_at: u64,
    kind: Kind,
    left: u64,
    values: Array,
}

impl HeaderReader {
    /// A reader for the file of that name (used in errors only). `file_bytes` is the file's size
    /// where the source knows it; with it, ranges past the end are found before the bytes run out.
    pub fn new(file: &str, file_bytes: Option<u64>) -> Self {
        Self {
            input: Intake::new(file, file_bytes),
            at: 0,
            state: State::Magic,
            version: 0,
            n_tensors: 0,
            n_pairs: 0,
            entries: BTreeMap::new(),
            tensors: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// Takes the next bytes of the file. Bytes after the header are counted and not kept: the
    /// tensor data begins at [`Header::data_start`].
    ///
    /// # Errors
    ///
    /// `BadFile` for a malformed file, `Unsupported` for a version or tensor type RLX does not
    /// read; each names the byte. After an error every call gives it again.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress> {
        if self.input.push(bytes)? { self.run() } else { Ok(Progress::Done) }
    }

    /// The source has no more bytes.
    ///
    /// # Errors
    ///
    /// `BadFile` when the header, or a tensor's data, is cut off; `Io` when the file was said to be
    /// longer.
    pub fn eof(&mut self) -> Result<()> {
        self.input.end()?;
        if self.input.header.is_none() {
            self.run()?;
        }
        match &self.input.header {
            Some(header) => match header.check_data(self.input.file_bytes) {
                Ok(()) => Ok(()),
                Err(error) => self.input.fail(error),
            },
            // Every unit that the end of the file cuts is an error by itself.
            None => self.input.fail(Error::internal("a header that ended was not noticed")),
        }
    }

    /// The header, once [`push`](Self::push) has answered [`Progress::Done`].
    pub fn header(&self) -> Option<&Header> {
        self.input.header.as_ref()
    }

    /// The header by value.
    pub fn into_header(self) -> Option<Header> {
        self.input.header
    }

    /// Bytes that have been pushed.
    pub fn seen(&self) -> u64 {
        self.input.seen
    }

    /// Reads units until the header is whole or the bytes run out.
    fn run(&mut self) -> Result<Progress> {
        let buffer = core::mem::take(&mut self.input.buffer);
        let file = self.input.file.clone();
        let mut used = 0;
        let outcome = loop {
            if matches!(self.state, State::Done) {
                break Ok(Progress::Done);
            }
            let mut cursor = Cursor {
                file: &file,
                bytes: &buffer[used..],
                pos: 0,
                base: self.at,
                size: self.input.file_bytes,
            };
            match self.unit(&mut cursor) {
                Ok(()) => {
                    used += cursor.pos;
                    self.at += cursor.pos as u64;
                }
                Err(Stop::More) => break Ok(Progress::NeedMore),
                Err(Stop::Fail(error)) => break Err(error),
            }
        };
        match outcome {
            Ok(Progress::NeedMore) => {
                self.input.buffer = buffer;
                self.input.buffer.drain(..used);
                Ok(Progress::NeedMore)
            }
            Ok(Progress::Done) => Ok(Progress::Done),
            Err(error) => self.input.fail(error),
        }
    }

    /// Reads one unit and moves to the next state; without an effect when it stops for more bytes.
    fn unit(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        match &mut self.state {
            State::Magic => {
                magic(cursor)?;
                self.state = State::Version;
            }
            State::Version => {
                self.version = version(cursor)?;
                self.state = State::Counts;
            }
            State::Counts => {
                let n_tensors = count(cursor, "tensor count", INFO_BYTES_MIN)?;
                let n_pairs = count(cursor, "key count", PAIR_BYTES_MIN)?;
                (self.n_tensors, self.n_pairs) = (n_tensors, n_pairs);
                self.state = State::Pair;
            }
            State::Pair if self.entries.len() as u64 == self.n_pairs => self.state = State::Info,
            State::Pair => self.pair(cursor)?,
            State::Elements(elements) if elements.left > 0 => elements.read(cursor)?,
            State::Elements(elements) => {
                let key = core::mem::take(&mut elements.key);
                let values = core::mem::replace(&mut elements.values, Array::U8(Vec::new()));
                let entry = Entry { value: Value::Array(values), at: elements.value_at };
                self.entries.insert(key, entry);
                self.state = State::Pair;
            }
            State::Info if self.tensors.len() as u64 == self.n_tensors => {
                self.finish(cursor)?;
                self.state = State::Done;
            }
            State::Info => {
                let info = tensor_info(cursor, self.tensors.len())?;
                if !self.names.insert(info.name.clone()) {
                    return Err(cursor
                        .damaged(info.at, format!("tensor {} occurs twice", info.name))
                        .into());
                }
                self.tensors.push(info);
            }
            State::Done => {}
        }
        Ok(())
    }

    fn pair(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let index = self.entries.len();
        let key_at = cursor.at();
        let key = cursor.string(|| format!("the name of key {index}"), KEY_BYTES_MAX)?;
        if self.entries.contains_key(key) {
            return Err(cursor.damaged(key_at, format!("key {key} occurs twice")).into());
        }
        let type_at = cursor.at();
        let id = cursor.u32(|| format!("the type of {key}"))?;
        let Some(kind) = Kind::from_id(id) else {
            let what = format!("{key} has value type {id}, the known ones are 0 to 12");
            return Err(cursor.damaged(type_at, what).into());
        };
        let value_at = cursor.at();
        if key == ALIGNMENT_KEY && kind != Kind::U32 {
            return Err(cursor.damaged(key_at, format!("{key} is not a u32")).into());
        }
        let value = match kind {
            Kind::Array => {
                let elements = Elements::open(key, value_at, cursor)?;
                self.state = State::Elements(elements);
                return Ok(());
            }
            Kind::String => {
                let text = cursor.string(|| format!("the string {key}"), u64::MAX)?;
                Value::String(text.to_string())
            }
            _ => scalar(cursor, kind, key)?,
        };
        if key == ALIGNMENT_KEY
            && let Value::U32(n) = value
            && !n.is_power_of_two()
        {
            let what = format!("{key} is {n}, needed is a power of two");
            return Err(cursor.damaged(key_at, what).into());
        }
        self.entries.insert(key.to_string(), Entry { value, at: value_at });
        Ok(())
    }

    /// Makes offsets absolute and checks them.
    fn finish(&mut self, cursor: &Cursor<'_>) -> Result<()> {
        let alignment = match self.entries.get(ALIGNMENT_KEY) {
            Some(Entry { value: Value::U32(n), .. }) => *n,
            _ => DEFAULT_ALIGNMENT,
        };
        let end = cursor.at();
        let Some(data_start) = align_up(end, alignment) else {
            return Err(cursor.damaged(end, "the header ends past 2^64".into()));
        };
        let mut tensors = core::mem::take(&mut self.tensors);
        for tensor in &mut tensors {
            let TensorInfo { name, offset, bytes, .. } = &*tensor;
            if offset % u64::from(alignment) != 0 {
                let what = format!("offset {offset} of {name} is no multiple of {alignment}");
                return Err(cursor.damaged(tensor.offset_at(), what));
            }
            let Some(start) = offset
                .checked_add(data_start)
                .filter(|start| start.checked_add(*bytes).is_some_and(|e| e <= i64::MAX as u64))
            else {
                let what = format!("offset {offset} of {name} plus its {bytes} bytes is past 2^63");
                return Err(cursor.damaged(tensor.offset_at(), what));
            };
            tensor.offset = start;
        }
        let header = Header {
            version: self.version,
            alignment,
            metadata: Metadata::new(self.input.file.clone(), core::mem::take(&mut self.entries)),
            tensors,
            data_start,
        };
        header.check_data(self.input.file_bytes)?;
        self.names.clear();
        self.input.header = Some(header);
        Ok(())
    }
}

impl Elements {
    /// Reads the element type and the count.
    fn open(key: &str, value_at: u64, cursor: &mut Cursor<'_>) -> Step<Self> {
        let id = cursor.u32(|| format!("the element type of {key}"))?;
        let Some(kind) = Kind::from_id(id) else {
            let what = format!("{key} has element type {id}, the known ones are 0 to 12");
            return Err(cursor.damaged(value_at, what).into());
        };
        let Some(values) = Array::empty(kind) else {
            let what = format!("{key} is an array of arrays, which GGUF models do not have");
            return Err(cursor.damaged(value_at, what).into());
        };
        let count_at = cursor.at();
        let left = cursor.u64(|| format!("the length of {key}"))?;
        let fits = left
            .checked_mul(kind.bytes() as u64)
            .and_then(|bytes| bytes.checked_add(cursor.at()))
            .is_some_and(|end| cursor.size.is_none_or(|size| end <= size));
        if !fits {
            // Elements of one size: the count is wrong. Strings: where they begin is all we know.
            let at = if kind == Kind::String { cursor.at() } else { count_at };
            let what = format!("the {left} elements of array {key} run past the end of the file");
            return Err(cursor.damaged(at, what).hint(HINT_PAST_END).into());
        }
        Ok(Self { key: key.to_string(), value_at, kind, left, values })
    }

    /// Takes one string, or as many numbers as have arrived.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let key = &self.key;
        if let Array::Strings(strings) = &mut self.values {
            let what = || format!("string {} of {key}", strings.len());
            let at = cursor.at();
            let text = cursor.string(what, u64::MAX)?;
            if !strings.push(text) {
                let what = format!("the strings of {key} have more than 4 GiB");
                return Err(Error::new(Code::Unsupported, what).at(place(cursor.file, at)).into());
            }
            self.left -= 1;
            return Ok(());
        }
        let size = self.kind.bytes();
        let n = u64::min(self.left, usize::max(1, cursor.left() / size) as u64) as usize;
        let at = cursor.at();
        let bytes = cursor.take(n * size, || format!("array {key}"))?;
        match &mut self.values {
            Array::U8(v) => v.extend_from_slice(bytes),
            Array::I8(v) => v.extend(bytes.iter().map(|&b| b as i8)),
            Array::U16(v) => v.extend(numbers(bytes, u16::from_le_bytes)),
            Array::I16(v) => v.extend(numbers(bytes, i16::from_le_bytes)),
            Array::U32(v) => v.extend(numbers(bytes, u32::from_le_bytes)),
            Array::I32(v) => v.extend(numbers(bytes, i32::from_le_bytes)),
            Array::U64(v) => v.extend(numbers(bytes, u64::from_le_bytes)),
            Array::I64(v) => v.extend(numbers(bytes, i64::from_le_bytes)),
            Array::F32(v) => v.extend(numbers(bytes, f32::from_le_bytes)),
            Array::F64(v) => v.extend(numbers(bytes, f64::from_le_bytes)),
            Array::Bool(v) => {
                for (i, &byte) in bytes.iter().enumerate() {
                    v.push(bool_of(cursor, byte, at + i as u64, key)?);
                }
            }
            Array::Strings(_) => {} // taken above
        }
        self.left -= n as u64;
        Ok(())
    }
}
