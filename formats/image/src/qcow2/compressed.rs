//! Compressed clusters: parallel decompression and caching.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diskfs_block::{BlockRead, Error, Result};
use quick_cache::sync::GuardResult;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::cache::{Caches, Cluster, ClusterKey, LayerId};
use crate::qcow2::decompress::Decompressor;
use crate::qcow2::l2_entry::CompressedCluster;
use crate::qcow2::units::{Geometry, HostOffset};
use crate::qcow2::workers::{Job, Workers};

/// The smallest output of a job for another thread. For less, waking a thread costs more than the
/// job: 64 KiB take some 50 us (zstd) to 300 us (deflate), a wake-up takes 5 to 50.
const JOB_MIN_BYTES: u64 = 64 << 10;
/// The part of the cache for clusters that are decompressed ahead, so that they are still cached
/// when they are read.
const AHEAD_PART: u64 = 4;

/// The requested part of a compressed cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) cluster: CompressedCluster,
    /// The offset of the part in the cluster.
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
}

/// The compressed clusters of one image.
#[derive(Debug)]
pub(crate) struct CompressedClusters {
    store: Arc<Store>,
    workers: Arc<Workers>,
}

/// The part of an image that workers use. It does not include the workers themselves, because they
/// would then never end.
#[derive(Debug)]
struct Store {
    file: Arc<dyn BlockRead>,
    caches: Arc<Caches>,
    layer: LayerId,
    geometry: Geometry,
    decompressor: Decompressor,
    /// The clusters that were offered to the workers and are not begun. A reader that begins one
    /// removes it, so that no worker does it again.
    offered: Mutex<HashSet<HostOffset>>,
}

/// The behaviour when another thread decompresses the same cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    No,
    Yes,
}

/// The outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Another thread is decompressing the cluster.
    InFlight,
}

impl CompressedClusters {
    pub(crate) fn new(
        file: Arc<dyn BlockRead>,
        caches: Arc<Caches>,
        workers: Arc<Workers>,
        layer: LayerId,
        geometry: Geometry,
        decompressor: Decompressor,
    ) -> Self {
        let store = Arc::new(Store {
            file,
            caches,
            layer,
            geometry,
            decompressor,
            offered: Mutex::default(),
        });
        Self { store, workers }
    }

    /// Fills `buf` with the part of one cluster.
    pub(crate) fn read_one(&self, piece: Piece, buf: &mut [u8]) -> Result<()> {
        self.store.read(piece, buf, Wait::Yes).map(|_| ())
    }

    /// Fills `buf` with parts of several clusters, in order. Other threads help: a cluster that one
    /// of them has begun is skipped and collected at the end.
    pub(crate) fn read_all(&self, pieces: &[Piece], buf: &mut [u8]) -> Result<()> {
        let later = pieces.get(1..).unwrap_or_default();
        self.decompress_ahead(later.iter().map(|piece| piece.cluster));
        let mut postponed = Vec::new();
        let mut rest = buf;
        for &piece in pieces {
            let (part, after) = rest.split_at_mut(to_usize(piece.len_bytes).min(rest.len()));
            if self.store.read(piece, part, Wait::No)? == Outcome::InFlight {
                postponed.push((piece, part));
            }
            rest = after;
        }
        for (piece, part) in postponed {
            self.store.read(piece, part, Wait::Yes)?;
        }
        Ok(())
    }

    /// Offers clusters to the workers, which put them into the cache.
    pub(crate) fn decompress_ahead(&self, clusters: impl Iterator<Item = CompressedCluster>) {
        let cluster_size = self.store.geometry.cluster_size();
        let limit = (self.store.caches.clusters_bytes / AHEAD_PART)
            .checked_div(cluster_size)
            .unwrap_or(0);
        let per_job = JOB_MIN_BYTES.checked_div(cluster_size).unwrap_or(1).max(1);
        let wanted: Vec<_> = clusters
            .filter(|cluster| !self.store.is_cached(cluster))
            .take(to_usize(limit))
            .collect();
        let jobs = wanted.chunks(to_usize(per_job)).map(|clusters| {
            // Only as many as fit into the queue: the iterator is not consumed further.
            self.store.offered().extend(clusters.iter().map(|c| c.host));
            let (store, clusters) = (Arc::clone(&self.store), clusters.to_vec());
            let job: Job = Box::new(move || store.fill_cache(&clusters));
            job
        });
        if !wanted.is_empty() {
            self.workers.offer(jobs);
        }
    }
}

impl Store {
    fn key(&self, cluster: &CompressedCluster) -> ClusterKey {
        ClusterKey(self.layer, cluster.host)
    }

    fn offered(&self) -> MutexGuard<'_, HashSet<HostOffset>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cached(&self, cluster: &CompressedCluster) -> bool {
        self.caches.clusters.contains_key(&self.key(cluster))
    }

    fn fill_cache(&self, clusters: &[CompressedCluster]) {
        for cluster in clusters {
            if !self.offered().remove(&cluster.host) {
                continue;
            }
            let key = self.key(cluster);
            let wait = Some(Duration::ZERO);
            if let GuardResult::Guard(guard) = self.caches.clusters.get_value_or_guard(&key, wait) {
                // The read that needs the cluster will report the error, with its place.
                if let Ok(cluster) = self.decompressed(*cluster) {
                    let _ = guard.insert(cluster);
                }
            }
        }
    }

    fn read(&self, piece: Piece, buf: &mut [u8], wait: Wait) -> Result<Outcome> {
        let key = self.key(&piece.cluster);
        let wait = (wait == Wait::No).then_some(Duration::ZERO);
        let found = self.caches.clusters.get_value_or_guard(&key, wait);
        if let GuardResult::Guard(_) = &found {
            self.offered().remove(&piece.cluster.host);
        }
        match found {
            GuardResult::Timeout => return Ok(Outcome::InFlight),
            GuardResult::Value(cluster) => copy_part(&cluster, piece, buf)?,
            // A cluster that is read whole is decompressed directly into the caller's buffer,
            // because it will probably not be read again. (Dropping the guard leaves the cache as
            // it was.)
            GuardResult::Guard(_guard) if to_u64(buf.len()) == self.geometry.cluster_size() => {
                self.decompress(piece.cluster, buf)?;
            }
            GuardResult::Guard(guard) => {
                let cluster = self.decompressed(piece.cluster)?;
                let _ = guard.insert(Arc::clone(&cluster));
                copy_part(&cluster, piece, buf)?;
            }
        }
        Ok(Outcome::Done)
    }

    fn decompressed(&self, cluster: CompressedCluster) -> Result<Cluster> {
        let mut bytes = vec![0; to_usize(self.geometry.cluster_size())];
        self.decompress(cluster, &mut bytes)?;
        Ok(Arc::new(bytes))
    }

    fn decompress(&self, cluster: CompressedCluster, output: &mut [u8]) -> Result<()> {
        // The descriptor counts whole sectors, and the last one may extend past the file's end.
        let there = self.file.size_bytes().saturating_sub(cluster.host.0);
        if there == 0 {
            let reason =
                "compressed cluster is past the end of the file; the file may be truncated";
            return Err(Error::corrupt(reason).at(cluster.host.0));
        }
        let len_bytes = cluster.len_bytes.min(there);
        self.decompressor
            .run(len_bytes, output, |input| {
                self.file.read_at(cluster.host.0, input)
            })
            .map_err(|e| e.at(cluster.host.0))
    }
}

fn copy_part(cluster: &Cluster, piece: Piece, buf: &mut [u8]) -> Result<()> {
    let start = to_usize(piece.start);
    match cluster.get(start..start.saturating_add(buf.len())) {
        Some(part) => {
            buf.copy_from_slice(part);
            Ok(())
        }
        None => Err(Error::invalid("read past the end of a cluster").at(piece.cluster.host.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    use crate::Compression;
    use crate::qcow2::counting::Counting;
    use crate::qcow2::units::L2Layout;

    const CLUSTER: usize = 65536;

    fn content(index: usize) -> Vec<u8> {
        (0..CLUSTER)
            .map(|i| u8::try_from(i * (index + 3) / 1000 % 256).unwrap())
            .collect()
    }

    /// Returns `count` clusters and their locations in the file.
    fn clusters(count: usize) -> (Arc<Counting>, Vec<CompressedCluster>) {
        let mut bytes = vec![];
        let mut places = vec![];
        for index in 0..count {
            let level = flate2::Compression::fast();
            let mut e = flate2::write::DeflateEncoder::new(Vec::new(), level);
            e.write_all(&content(index)).unwrap();
            let stored = e.finish().unwrap();
            places.push(CompressedCluster {
                host: HostOffset(bytes.len() as u64),
                len_bytes: stored.len() as u64 + 100,
            });
            bytes.extend(stored);
        }
        (Arc::new(Counting::new(bytes)), places)
    }

    fn open(file: &Arc<Counting>) -> CompressedClusters {
        CompressedClusters::new(
            Arc::clone(file) as Arc<dyn BlockRead>,
            Arc::new(Caches::new(0).unwrap()),
            Arc::new(Workers::new()),
            LayerId(0),
            Geometry::new(16, L2Layout::Standard),
            Decompressor::new(Compression::Zlib),
        )
    }

    #[test]
    fn many_threads_read_parts_of_the_same_clusters() {
        let (file, places) = clusters(12);
        let all = open(&file);
        let whole: Vec<u8> = (0..12).flat_map(content).collect();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (all, places, whole) = (&all, &places, &whole);
                scope.spawn(move || {
                    let cut = 1000 * (thread + 1);
                    let pieces: Vec<_> = (0_usize..12)
                        .map(|i| Piece {
                            cluster: places[i],
                            start: if i == 0 { cut as u64 } else { 0 },
                            len_bytes: if i == 0 { CLUSTER - cut } else { CLUSTER } as u64,
                        })
                        .collect();
                    let mut buf = vec![0; whole.len() - cut];
                    all.read_all(&pieces, &mut buf).unwrap();
                    assert!(buf == whole[cut..]);
                });
            }
        });
    }

    #[test]
    fn a_cluster_that_several_want_is_read_once() {
        let (file, places) = clusters(1);
        let all = open(&file);
        let piece = Piece {
            cluster: places[0],
            start: 5,
            len_bytes: 100,
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| all.read_one(piece, &mut [0; 100]).unwrap());
            }
        });
        assert_eq!(file.reads(), 1);
    }

    #[test]
    fn nothing_is_decompressed_twice_for_one_read() {
        let (file, places) = clusters(40);
        let all = open(&file);
        let pieces: Vec<_> = places
            .iter()
            .map(|&cluster| Piece {
                cluster,
                start: 0,
                len_bytes: 65536,
            })
            .collect();
        let mut buf = vec![0; 40 * CLUSTER];
        all.read_all(&pieces, &mut buf).unwrap();
        assert!(all.store.offered().is_empty());
        drop(all);
        assert_eq!(file.reads(), 40);
    }

    #[test]
    fn what_is_needed_soon_gets_into_the_cache() {
        let (file, places) = clusters(6);
        let all = open(&file);
        all.decompress_ahead(places.iter().copied());
        let start = Instant::now();
        while !places.iter().all(|cluster| all.store.is_cached(cluster)) {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = file.reads();
        let mut buf = vec![0; CLUSTER];
        let piece = Piece {
            cluster: places[5],
            start: 0,
            len_bytes: 65536,
        };
        all.read_one(piece, &mut buf).unwrap();
        assert!(buf == content(5));
        assert_eq!(file.reads(), before);
    }
}
