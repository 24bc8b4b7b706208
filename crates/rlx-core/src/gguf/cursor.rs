//! Reads fields from the bytes that have arrived, knowing where in the file they are.

use super::{HINT_CUT, HINT_DAMAGED, HINT_PAST_END, place};
use crate::Error;
use alloc::format;
use alloc::string::String;

/// Why a unit could not be read.
pub(super) enum Stop {
    /// It goes on past the bytes that have arrived.
    More,
    /// It is wrong.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Fail(error)
    }
}

/// A result of reading a field.
pub(super) type Step<T> = core::result::Result<T, Stop>;

/// A place in the bytes that have arrived.
pub(super) struct Cursor<'a> {
    /// The file's name.
    pub(super) file: &'a str,
    /// What has arrived and is not parsed.
    pub(super) bytes: &'a [u8],
    /// What has been taken of it.
    pub(super) pos: usize,
    /// The byte of the file where `bytes` begins.
    pub(super) base: u64,
    /// The file's size, when it is known.
    pub(super) size: Option<u64>,
}

impl<'a> Cursor<'a> {
    /// The byte of the file.
    pub(super) fn at(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// Bytes that have arrived and are not taken.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// True when `bytes` from here end past the end of the file, or past 64 bits.
    pub(super) fn past_end(&self, bytes: u64) -> bool {
        self.at().checked_add(bytes).is_none_or(|end| self.size.is_some_and(|size| end > size))
    }

    /// The next `n` bytes of the field `what`.
    pub(super) fn take(&mut self, n: usize, what: impl FnOnce() -> String) -> Step<&'a [u8]> {
        if self.left() >= n {
            let taken = &self.bytes[self.pos..self.pos + n];
            self.pos += n;
            return Ok(taken);
        }
        if self.past_end(n as u64) {
            let error = Error::bad_file(format!("the file ends in {}", what()))
                .at(place(self.file, self.at()))
                .hint(HINT_CUT);
            return Err(error.into());
        }
        Err(Stop::More)
    }

    /// A field of a fixed size.
    pub(super) fn array<const N: usize>(&mut self, what: impl FnOnce() -> String) -> Step<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, what)?);
        Ok(bytes)
    }

    /// A u32 field.
    pub(super) fn u32(&mut self, what: impl FnOnce() -> String) -> Step<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// A u64 field.
    pub(super) fn u64(&mut self, what: impl FnOnce() -> String) -> Step<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string of at most `most` bytes. `what` names it, as in "the length of `what`".
    pub(super) fn string(&mut self, what: impl Fn() -> String, most: u64) -> Step<&'a str> {
        let at = self.at();
        let len = self.u64(|| format!("the length of {}", what()))?;
        if self.past_end(len) {
            let what = format!("{} has {len} bytes and runs past the end of the file", what());
            return Err(self.damaged(at, what).hint(HINT_PAST_END).into());
        }
        if len > most {
            let what = format!("{} has {len} bytes, at most {most} are allowed", what());
            return Err(self.damaged(at, what).into());
        }
        match usize::try_from(len) {
            Ok(n) if n <= self.left() => {
                let text = self.take(n, &what)?;
                core::str::from_utf8(text)
                    .map_err(|_| self.damaged(at, format!("{} is not UTF-8", what())).into())
            }
            _ => Err(Stop::More),
        }
    }

    /// An error at a byte of the file.
    pub(super) fn damaged(&self, at: u64, what: String) -> Error {
        Error::bad_file(what).at(place(self.file, at)).hint(HINT_DAMAGED)
    }
}
