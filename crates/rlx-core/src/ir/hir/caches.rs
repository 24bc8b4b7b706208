//! How the caches of attention are kept.

use crate::types::DType;

/// A ring's positions are a multiple of it.
const MULTIPLE: u64 = 8;

/// What all caches of a model have in common. Of an element type alone: every cache has the whole context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Element type: f32, f16, q8_0 or q4_0.
    pub kv: DType,
    /// Positions that the cache of a layer with a window keeps beyond the window, at least the rows of a
    /// submission; `None`: it keeps the whole context.
    pub spare: Option<u64>,
}

impl From<DType> for Caches {
    fn from(kv: DType) -> Self {
        Caches { kv, spare: None }
    }
}

impl Caches {
    /// Positions of a layer's cache whose rows see `window` positions before their own, if these are fewer than
    /// the context: position `p` then has row `p mod` so many.
    pub fn ring(self, context: u64, window: u64) -> Option<u64> {
        let positions = window.checked_add(self.spare?)?.checked_next_multiple_of(MULTIPLE)?;
        (positions < context).then_some(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::Caches;
    use crate::types::DType;

    #[test]
    fn a_ring_has_the_window_and_what_is_spared_and_is_shorter_than_the_context() {
        let caches = Caches { kv: DType::F16, spare: Some(512) };
        assert_eq!(caches.ring(4096, 511), Some(1024));
        assert_eq!(caches.ring(4096, 512), Some(1024));
        assert_eq!(caches.ring(1025, 511), Some(1024));
        assert_eq!(caches.ring(1024, 511), None);
        assert_eq!(caches.ring(4096, u64::MAX), None);
        assert_eq!(Caches::from(DType::F16).ring(4096, 8), None);
    }
}
