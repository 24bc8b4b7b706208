//! Small maps and sets as sorted lists.
//!
//! `BTreeMap` is compiled anew for each pair of types, 5 kB of a page's download every time. These are for maps inside
//! the compiler, of which most are short and get their keys nearly in order: a key before others moves them. What a
//! file names, in whatever order and number, belongs in a `BTreeMap`.

use alloc::vec::Vec;
use core::ops::Index;

/// A map from keys to values.
#[derive(Clone, Debug)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Map(Vec::new())
    }
}

impl<K: Ord, V> Map<K, V> {
    /// Without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where a key is, or belongs.
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| entry.0.cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|i| &self.0[i].1)
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Gives a key a value; the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(i) => Some(core::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// The value of a key, which is made where there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let i = match self.find(&key) {
            Ok(i) => i,
            Err(i) => {
                self.0.insert(i, (key, make()));
                i
            }
        };
        &mut self.0[i].1
    }

    /// Takes a key's value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|i| self.0.remove(i).1)
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|entry| &entry.0)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the last key out.
    fn pop_last(&mut self) -> Option<K> {
        self.0.pop().map(|entry| entry.0)
    }
}

impl<K: Ord, V> Index<&K> for Map<K, V> {
    type Output = V;

    /// The value of a key that is there.
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("no value for the key")
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Map::new();
        map.extend(entries);
        map
    }
}

/// A set of keys.
#[derive(Clone, Debug)]
pub struct Set<K>(Map<K, ()>);

impl<K: Ord> Default for Set<K> {
    fn default() -> Self {
        Set(Map::new())
    }
}

impl<K: Ord> Set<K> {
    /// Without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key; whether it was not there.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Takes the last key out.
    pub fn pop_last(&mut self) -> Option<K> {
        self.0.pop_last()
    }

    /// The keys, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.keys()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Ord> Extend<K> for Set<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Ord> FromIterator<K> for Set<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Set::new();
        set.extend(keys);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{Map, Set};
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;

    #[test]
    fn does_what_the_standard_library_does() {
        let (mut map, mut want) = (Map::new(), BTreeMap::new());
        let (mut set, mut keys) = (Set::new(), BTreeSet::new());
        let mut seed = 7u32;
        for i in 0..3000u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = seed >> 24;
            match seed % 7 {
                0 => {
                    assert_eq!(map.remove(&key), want.remove(&key));
                    assert_eq!(set.remove(&key), keys.remove(&key));
                }
                1 => assert_eq!(
                    *map.get_or_insert_with(key, || i),
                    *want.entry(key).or_insert_with(|| i)
                ),
                2 => assert_eq!(set.pop_last(), keys.pop_last()),
                _ => {
                    assert_eq!(map.insert(key, i), want.insert(key, i));
                    assert_eq!(set.insert(key), keys.insert(key));
                }
            }
            assert_eq!((map.get(&key), map.len()), (want.get(&key), want.len()));
            assert_eq!(map.contains_key(&(key / 2)), want.contains_key(&(key / 2)));
            assert_eq!((set.contains(&key), set.len()), (keys.contains(&key), keys.len()));
        }
        assert_eq!(map.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
        assert_eq!(set.iter().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
        let collected: Map<u32, u32> = [(3, 0), (1, 1), (3, 2)].into_iter().collect();
        assert_eq!((collected.get(&3), collected.len()), (Some(&2), 2));
        assert_eq!([5, 1, 5].into_iter().collect::<Set<u32>>().len(), 2);
        assert!(Map::<u32, u32>::new().is_empty() && Set::<u32>::new().is_empty());
    }
}
