//! Numbers that are never used twice.

/// One sequence for the device's own ids and the GPU's: an id of one kind is never taken for
/// another.
#[derive(Default)]
pub(super) struct Ids(u32);

impl Ids {
    /// The next number, from 1 on.
    pub fn next(&mut self) -> u32 {
        // 2^32 ids at 10,000 a second last five days; a session uses three a token.
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}
