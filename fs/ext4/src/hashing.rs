//! Maps with block and inode numbers as keys. Each operation accesses a map several times, so the
//! hash function is a fast one. Each map has a random key, so no image can be crafted to cause
//! collisions.

/// A hash map like that of the standard library.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A hash set like that of the standard library.
pub(crate) type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
