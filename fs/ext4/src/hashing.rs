//! Maps by numbers of blocks and inodes. A map is asked several times for each operation, so its
//! hash is a fast one; each map's is keyed by chance, so that no image can be made that collides.

/// As that of the standard library.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// As that of the standard library.
pub(crate) type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
