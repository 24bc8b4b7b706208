//! Codebooks that kernels bind: values of a group as signed bytes, one or two words each.

use rlx_core::formats::codebook as book;
use rlx_core::types::BlockFormat;

/// A codebook of `rlx_core::formats::codebook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Book {
    /// Of `iq1_s` and `iq1_m`, values 8 times as large: moved by an eighth they are integers.
    Iq1,
    /// Of `iq2_xxs`.
    Iq2Xxs,
    /// Of `iq2_xs`.
    Iq2Xs,
    /// Of `iq2_s`.
    Iq2S,
    /// Of `iq3_xxs`.
    Iq3Xxs,
    /// Of `iq3_s`.
    Iq3S,
}

impl Book {
    /// The book that a format's blocks index, if they do.
    pub fn of(format: BlockFormat) -> Option<Book> {
        Some(match format {
            BlockFormat::Iq1S | BlockFormat::Iq1M => Book::Iq1,
            BlockFormat::Iq2Xxs => Book::Iq2Xxs,
            BlockFormat::Iq2Xs => Book::Iq2Xs,
            BlockFormat::Iq2S => Book::Iq2S,
            BlockFormat::Iq3Xxs => Book::Iq3Xxs,
            BlockFormat::Iq3S => Book::Iq3S,
            _ => return None,
        })
    }

    /// Its groups, 8 values (`iq1`, `iq2`) or 4 (`iq3`) each, the first value lowest: 1 to 16 kB.
    pub fn words(self) -> Vec<u32> {
        /// -1, 0 and 1, times 8, as the bits of an `i8`.
        const IQ1_EIGHTHS: [u8; 3] = [0xf8, 0, 8];
        let pairs =
            |groups: &[u64]| groups.iter().flat_map(|&g| [g as u32, (g >> 32) as u32]).collect();
        match self {
            Book::Iq1 => pairs(&book::grid8(&book::IQ1_S, IQ1_EIGHTHS)),
            Book::Iq2Xxs => pairs(&book::grid8(&book::IQ2_XXS, book::IQ2_LEVELS)),
            Book::Iq2Xs => pairs(&book::grid8(&book::IQ2_XS, book::IQ2_LEVELS)),
            Book::Iq2S => pairs(&book::grid8(&book::IQ2_S, book::IQ2_LEVELS)),
            Book::Iq3Xxs => book::grid4(&book::IQ3_XXS, book::IQ3_XXS_LEVELS).to_vec(),
            Book::Iq3S => book::grid4(&book::IQ3_S, book::IQ3_S_LEVELS).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlx_core::runtime::memory::CODEBOOKS;

    #[test]
    fn books_are_those_that_a_fit_counts() {
        for (formats, bytes) in CODEBOOKS {
            let book = Book::of(formats[0]).expect("it has a book");
            assert_eq!(book.words().len() as u64 * 4, bytes, "{book:?}");
            assert!(formats.iter().all(|f| Book::of(*f) == Some(book)));
        }
        let counted = |f: &BlockFormat| CODEBOOKS.iter().any(|b| b.0.contains(f));
        for format in BlockFormat::ALL {
            assert_eq!(Book::of(*format).is_some(), counted(format), "{format:?}");
        }
    }
}
