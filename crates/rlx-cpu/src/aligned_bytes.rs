//! Zeroed memory that starts on a cache line.
//!
//! **Unsafe.** One call advises Linux about pages; it changes no bytes.
#![allow(unsafe_code)]

use rlx_core::{Code, Error, Result};

/// Bytes of a cache line, and the planner's alignment of arena slots.
const LINE: usize = 64;

/// Zeroed bytes whose start is a multiple of 64. The system gives pages as they are first
/// written: a buffer that nothing writes costs no memory on Linux, macOS and Windows.
pub(crate) struct AlignedBytes {
    words: Box<[u128]>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// # Errors
    /// `OutOfMemory` with the bytes asked for.
    pub(crate) fn new(len: usize) -> Result<AlignedBytes> {
        let words = (len.div_ceil(16)).saturating_add(LINE / 16 - 1);
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut))]
        let mut words = bytemuck::try_zeroed_slice_box::<u128>(words)
            .map_err(|()| Error::new(Code::OutOfMemory, format!("no memory for {len} bytes")))?;
        #[cfg(target_os = "linux")]
        advise_huge_pages(&mut words);
        let start = words.as_ptr().addr().wrapping_neg() % LINE;
        Ok(AlignedBytes { words, start, len })
    }

    /// The allocation, and where in it the bytes start.
    pub(crate) fn into_words(self) -> (Box<[u128]>, usize) {
        (self.words, self.start)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.start..self.start + self.len]
    }
}

/// Asks for pages of 2 MiB, of which a pass over gigabytes of weights translates 512 times fewer. Whether
/// there are any is the system's to say.
#[cfg(target_os = "linux")]
fn advise_huge_pages(words: &mut [u128]) {
    const HUGE: usize = 2 << 20;
    let all = words.as_mut_ptr_range();
    let (start, end) = (all.start.addr().next_multiple_of(HUGE), all.end.addr() / HUGE * HUGE);
    if start < end && !cfg!(miri) {
        // SAFETY: the range lies in memory that is borrowed here for writing, and starts on a page. The
        // advice changes how the system backs it, not what it holds; refused, it does nothing.
        unsafe {
            libc::madvise(all.start.with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE)
        };
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;

    pub fn memory_is_zero_and_starts_on_a_cache_line() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let m = AlignedBytes::new(len).unwrap();
            assert_eq!(m.bytes(), vec![0; len]);
            assert_eq!(m.bytes().as_ptr().addr() % LINE, 0);
        }
    }
}
