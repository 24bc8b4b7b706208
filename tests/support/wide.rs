//! How many cases a test tries.

/// Whether a test tries every case that it has (`npm test -- --only wide`). Otherwise cases that are pipelines of
/// their own on a GPU are fewer: a driver in software compiles each for up to two seconds.
pub fn is_wide() -> bool {
    std::env::var_os("RLX_WIDE").is_some()
}

/// All of these cases in the wide suite, otherwise only the first `few`.
#[allow(dead_code)] // for crates whose tests try no fewer cases
pub fn first_of<T>(few: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    cases.into_iter().take(if is_wide() { usize::MAX } else { few })
}
