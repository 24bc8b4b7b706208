//! What somebody may have meant: the known word that differs least from the one that was written.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, counted in
/// characters; case does not count.
fn distance(a: &str, b: &str) -> usize {
    let chars = |s: &str| s.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let (a, b) = (chars(a), chars(b));
    // Rows i - 2, i - 1 and i of the table of prefixes.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i);
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = core::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// The known words nearest to `word`, nearest first and at most `most`. One slip in three characters
/// of the longer word is near, and one slip in a word of two. Equal distances keep the order of
/// `known`.
pub fn nearest<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = Vec::new();
    for k in known {
        let d = distance(word, k);
        if d * 3 <= k.chars().count().max(word.chars().count()).max(3) {
            near.insert(near.partition_point(|n| n.0 <= d), (d, k));
            near.truncate(most);
        }
    }
    near.into_iter().map(|n| n.1).collect()
}

/// A hint for an unknown word: `did you mean `skip`?`, or the whole list when nothing is near.
pub fn did_you_mean(word: &str, what: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied(), 1).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{what}: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_each_kind_costs_one() {
        for slip in ["direc", "directt", "dirext", "dierct", "DIRECT!"] {
            assert_eq!(distance(slip, "direct"), 1, "{slip}");
        }
        assert_eq!(distance("direct", "direct"), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }

    #[test]
    fn one_slip_in_three_characters_is_near() {
        let near = |word, known| !nearest(word, [known], 1).is_empty();
        assert!(near("cs", "cse") && near("dec", "dce") && near("kw", "kv"));
        assert!(near("constant_fold", "constant_folding") && near("SEQS", "SEQ"));
        assert!(!near("cse", "fuse") && !near("dce", "cse") && !near("fold", "glu"));
        assert!(!near("silu", "gelu") && !near("f16", "f32") && !near("", "dce"));
    }

    #[test]
    fn far_words_are_not_suggested() {
        assert_eq!(nearest("skp", ["policy", "skip"], 3), ["skip"]);
        assert!(nearest("zzzz", ["policy", "skip"], 3).is_empty());
        assert_eq!(did_you_mean("zzzz", "keys", &["policy", "skip"]), "keys: policy, skip");
        assert_eq!(did_you_mean("polcy", "keys", &["policy", "skip"]), "did you mean `policy`?");
    }
}
