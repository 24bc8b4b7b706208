//! Loops of a fixed length, written out.
//!
//! Optimisers for wasm unroll next to nothing, and an array whose index is no constant lives in memory:
//! sums that are to stay in registers are indexed by constants.

/// A statement for each of some numbers.
macro_rules! each {
    ($i:ident in $($n:literal)* => $body:expr) => {{
        $({
            const $i: usize = $n;
            $body;
        })*
    }};
}

/// An array of an element for each of some numbers.
macro_rules! list {
    ($i:ident in $($n:literal)* => $element:expr) => {
        [$({
            const $i: usize = $n;
            $element
        }),*]
    };
}

pub(crate) use {each, list};
