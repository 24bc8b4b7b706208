//! Recorded results that come from the code under test, and how they are written anew.

/// Whether `BLESS=1` asks for recorded results to be rewritten instead of compared.
///
/// # Panics
/// In CI: a run that rewrites what it compares with would pass whatever the code does.
pub fn bless() -> bool {
    let asked = std::env::var_os("BLESS").is_some();
    let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    assert!(
        !(asked && ci),
        "BLESS rewrites what tests compare with, so CI refuses it: unset BLESS"
    );
    asked
}
