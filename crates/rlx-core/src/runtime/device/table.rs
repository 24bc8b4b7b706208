//! Tables of an executor's live objects, by ids that are never reused.

use crate::error::Result;
use alloc::vec::Vec;

/// One sequence for ids of all kinds, so that two objects never have the same id.
#[derive(Debug, Default)]
pub struct Ids(u32);

impl Ids {
    /// The next number, from 1 on.
    #[allow(clippy::should_implement_trait)] // It has no end.
    pub fn next(&mut self) -> u32 {
        // 2^32 ids at 10,000 a second last five days; a session uses three a token.
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

/// A small map, as rows sorted by key. New keys mostly are the largest, so an insert is a push. An
/// executor has a dozen of these, and a page downloads each kind: a `BTreeMap` is ten times the code.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: Vec<(K, V)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { rows: Vec::new() }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, key: &K) -> core::result::Result<usize, usize> {
        self.rows.binary_search_by(|row| row.0.cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().and_then(|i| self.rows.get(i)).map(|row| &row.1)
    }

    /// The value of a key, to change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().and_then(|i| self.rows.get_mut(i)).map(|row| &mut row.1)
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Adds a row, or replaces its value.
    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(i) => self.rows[i].1 = value,
            Err(i) => self.rows.insert(i, (key, value)),
        }
    }

    /// The value of a key, made if it has none.
    ///
    /// # Errors
    /// From `make`; then nothing is added.
    pub fn get_or_make(&mut self, key: K, make: impl FnOnce() -> Result<V>) -> Result<&mut V> {
        let i = match self.find(&key) {
            Ok(i) => i,
            Err(i) => {
                self.rows.insert(i, (key, make()?));
                i
            }
        };
        Ok(&mut self.rows[i].1)
    }

    /// Removes a row and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|i| self.rows.remove(i).1)
    }

    /// Keeps the rows for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.rows.retain(|row| keep(&row.0, &row.1));
    }

    /// Rows by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().map(|row| (&row.0, &row.1))
    }

    /// Keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.iter().map(|row| &row.0)
    }

    /// Values by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.iter().map(|row| &row.1)
    }

    /// Values by key, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.rows.iter_mut().map(|row| &mut row.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn ids_begin_at_one_and_differ() {
        let mut ids = Ids::default();
        assert_eq!([ids.next(), ids.next(), ids.next()], [1, 2, 3]);
    }

    #[test]
    fn rows_are_found_replaced_and_taken_out_in_any_order() {
        let mut t = Table::new();
        for key in [5, 1, 9, 3] {
            t.insert(key, key * 10);
        }
        t.insert(3, 33);
        assert!(t.keys().copied().eq([1, 3, 5, 9]) && t.values().copied().eq([10, 33, 50, 90]));
        assert_eq!((t.get(&3), t.get(&4), t.contains_key(&9)), (Some(&33), None, true));
        *t.get_mut(&9).expect("a row") += 1;
        assert_eq!((t.remove(&9), t.remove(&9)), (Some(91), None));
        t.retain(|key, _| *key != 1);
        t.values_mut().for_each(|v| *v += 1);
        assert!(t.iter().eq([(&3, &34), (&5, &51)]));
    }

    #[test]
    fn a_value_that_cannot_be_made_leaves_no_row() {
        let mut t: Table<u32, u32> = Table::new();
        assert!(t.get_or_make(1, || Err(Error::internal("no"))).is_err());
        assert!(!t.contains_key(&1));
        *t.get_or_make(1, || Ok(7)).expect("made") += 1;
        assert_eq!(t.get_or_make(1, || Ok(0)).ok(), Some(&mut 8));
    }
}
