//! Texts of WGSL files without their comments, which are a quarter of them, and without indentation: no page downloads
//! those.

/// The text of a WGSL file without comments and indentation, or `wgsl!(text: …)` of a constant text.
macro_rules! wgsl {
    ($path:literal) => {
        wgsl!(text: include_str!($path))
    };
    (text: $text:expr) => {{
        const TEXT: &str = $text;
        const KEPT: [u8; $crate::wgsl::kept(TEXT)] =
            $crate::wgsl::without_comments(TEXT);
        const { $crate::wgsl::as_str(&KEPT) }
    }};
}

/// Bytes of a text without its comments and indentation.
pub(crate) const fn kept(text: &str) -> usize {
    strip::<0>(text).1
}

/// A text without its comments and indentation, and without lines that have nothing else. `N` is what [`kept`] says.
pub(crate) const fn without_comments<const N: usize>(text: &str) -> [u8; N] {
    strip(text).0
}

/// The bytes as text: a comment ends at the end of a line, so no character is cut.
pub(crate) const fn as_str(bytes: &'static [u8]) -> &'static str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a comment ends inside a character"),
    }
}

/// The first `N` bytes that are kept, and how many there are in all.
const fn strip<const N: usize>(text: &str) -> ([u8; N], usize) {
    let text = text.as_bytes();
    let (mut out, mut len) = ([0; N], 0);
    let mut start = 0;
    while start < text.len() {
        // The line is `start..end`, of which `start..code` stays.
        while start < text.len() && text[start] == b' ' {
            start += 1;
        }
        let mut end = start;
        while end < text.len() && text[end] != b'\n' {
            end += 1;
        }
        let mut code = start;
        while code < end && !(text[code] == b'/' && code + 1 < end && text[code + 1] == b'/') {
            code += 1;
        }
        let has_comment = code < end;
        while has_comment && code > start && text[code - 1] == b' ' {
            code -= 1;
        }
        if end < text.len() {
            end += 1;
        }
        let mut i = start;
        while i < end && !(has_comment && code == start) {
            if i < code || text[i] == b'\n' {
                if len < N {
                    out[len] = text[i];
                }
                len += 1;
            }
            i += 1;
        }
        start = end;
    }
    (out, len)
}

#[cfg(test)]
mod tests {
    use super::{kept, without_comments};

    #[test]
    fn comments_go_and_nothing_else() {
        const TEXT: &str = "// – head\nlet a = b / c; // why\n\n    // alone\n    let {{d}} = 1;";
        const KEPT: [u8; kept(TEXT)] = without_comments(TEXT);
        assert_eq!(core::str::from_utf8(&KEPT), Ok("let a = b / c;\n\nlet {{d}} = 1;"));
    }
}
