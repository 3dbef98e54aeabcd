//! The mapping, compared with a model that examines one sector at a time.

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
use proptest::prelude::*;

use crate::qcow2::counting::Counting;
use crate::{Format, Image, OpenOptions};

/// The cluster size: 2 L2 tables of 64 clusters of 512 bytes, the second not full.
const CLUSTER: usize = 512;
const CLUSTERS: usize = 100;
const SIZE: usize = CLUSTERS * CLUSTER - 17;

/// The way in which a guest cluster is stored.
#[derive(Debug, Clone, Copy)]
enum ClusterKind {
    Absent,
    ZeroPlain,
    /// A zero cluster that is preallocated at this host cluster.
    ZeroAllocated(u8),
    /// Data in this host cluster, which another guest cluster may share.
    Data(u8),
}

fn kind() -> impl Strategy<Value = ClusterKind> {
    prop_oneof![
        Just(ClusterKind::Absent),
        Just(ClusterKind::ZeroPlain),
        (0..120_u8).prop_map(ClusterKind::ZeroAllocated),
        (0..120_u8).prop_map(ClusterKind::Data),
    ]
}

/// Returns guest clusters among which runs of consecutive host clusters are common, so that merging
/// is tested.
fn kinds() -> impl Strategy<Value = Vec<ClusterKind>> {
    let run = (kind(), 1..12_u8).prop_map(|(kind, len)| {
        (0..len).map(move |i| match kind {
            ClusterKind::Data(host) => ClusterKind::Data((host + i) % 120),
            ClusterKind::ZeroAllocated(host) => ClusterKind::ZeroAllocated((host + i) % 120),
            other => other,
        })
    });
    proptest::collection::vec(run, CLUSTERS).prop_map(|runs| {
        let mut kinds: Vec<_> = runs.into_iter().flatten().collect();
        kinds.truncate(CLUSTERS);
        kinds
    })
}

/// Builds an image with header, L1 and two L2 tables in clusters 0 to 3, and host cluster `n` in
/// cluster `4 + n`.
fn image(kinds: &[ClusterKind]) -> Vec<u8> {
    let mut bytes = vec![0; (4 + 120) * CLUSTER];
    let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    set(0, b"QFI\xfb");
    set(4, &3_u32.to_be_bytes());
    set(20, &9_u32.to_be_bytes());
    set(24, &(SIZE as u64).to_be_bytes());
    set(36, &2_u32.to_be_bytes());
    set(40, &512_u64.to_be_bytes());
    set(96, &4_u32.to_be_bytes());
    set(100, &104_u32.to_be_bytes());
    set(512, &1024_u64.to_be_bytes());
    set(520, &1536_u64.to_be_bytes());
    for (index, kind) in kinds.iter().enumerate() {
        let place = |host: u8| (4 + u64::from(host)) * 512;
        let entry = match *kind {
            ClusterKind::Absent => 0,
            ClusterKind::ZeroPlain => 1,
            ClusterKind::ZeroAllocated(host) => place(host) | 1,
            ClusterKind::Data(host) => place(host) | 1 << 63,
        };
        set(1024 + index * 8, &entry.to_be_bytes());
    }
    for host in 0..120 {
        for i in 0..CLUSTER {
            bytes[(4 + host) * CLUSTER + i] = host_byte(u8::try_from(host).unwrap(), i);
        }
    }
    bytes
}

fn host_byte(host: u8, index: usize) -> u8 {
    host.wrapping_mul(31) ^ u8::try_from(index % 251).unwrap() | 1
}

fn model_byte(kinds: &[ClusterKind], at: usize) -> u8 {
    match kinds[at / CLUSTER] {
        ClusterKind::Data(host) => host_byte(host, at % CLUSTER),
        _ => 0,
    }
}

/// Consecutive clusters of the file are read at once, even across L2 tables.
#[test]
fn runs_go_on_over_the_borders_of_tables() {
    let kinds: Vec<_> = (0..100).map(ClusterKind::Data).collect();
    let file = Arc::new(Counting::new(image(&kinds)));
    let below = Arc::clone(&file) as Arc<dyn BlockRead>;
    let opened = Image::from_device(below, &OpenOptions::default()).unwrap();
    let mut all = vec![0; SIZE];
    opened.device().read_at(0, &mut all).unwrap();
    let before = file.reads();
    opened.device().read_at(0, &mut all).unwrap();
    assert_eq!(file.reads() - before, 1);
    assert_eq!(opened.map().count(), 1);
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        kinds in kinds(),
        reads in proptest::collection::vec((0..SIZE, 0..4000_usize), 20),
    ) {
        let options = OpenOptions { format: Some(Format::Qcow2), ..OpenOptions::default() };
        let image = Image::from_device(Arc::new(Memory::new(image(&kinds))), &options).unwrap();
        let device = image.device();
        for (at, len) in reads {
            let len = len.min(SIZE - at);
            let mut buf = vec![0x5a; len];
            device.read_at(at as u64, &mut buf).unwrap();
            let expected: Vec<_> = (at..at + len).map(|at| model_byte(&kinds, at)).collect();
            prop_assert_eq!(buf, expected);
        }
        let mut at = 0;
        for entry in image.map() {
            let entry = entry.unwrap();
            prop_assert_eq!(entry.start, at);
            for offset in at..at + entry.len_bytes {
                let in_cluster = offset % 512;
                let (present, data, host) = match kinds[usize::try_from(offset).unwrap() / CLUSTER] {
                    ClusterKind::Absent => (false, false, None),
                    ClusterKind::ZeroPlain => (true, false, None),
                    ClusterKind::ZeroAllocated(host) => (true, false, Some(host)),
                    ClusterKind::Data(host) => (true, true, Some(host)),
                };
                prop_assert_eq!((entry.present, entry.data), (present, data));
                let host = host.map(|host| (4 + u64::from(host)) * 512 + in_cluster);
                prop_assert_eq!(entry.host_offset.map(|at| at + offset - entry.start), host);
            }
            at += entry.len_bytes;
        }
        prop_assert_eq!(at, SIZE as u64);
    }

    /// Any header and tables lead to an error or bytes, never to a panic or an endless loop.
    #[test]
    fn any_bytes_are_harmless(
        kinds in kinds(),
        changes in proptest::collection::vec((0..2048_usize, any::<u8>()), 0..24),
        len in 0..(124 * CLUSTER),
    ) {
        let mut bytes = image(&kinds);
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes[..4].copy_from_slice(b"QFI\xfb");
        bytes.truncate(len);
        if let Ok(image) = Image::from_device(Arc::new(Memory::new(bytes)), &OpenOptions::default()) {
            let device: Arc<dyn BlockRead> = image.device();
            let mut buf = vec![0; 8192];
            for at in [0, 1, 31 * 1024, device.size_bytes().saturating_sub(8192)] {
                let _ = device.read_at(at, &mut buf);
                let _ = device.extent_at(at);
                device.will_need(at, 1 << 20);
            }
            let _ = image.map().take(500).last();
            let _ = image.check();
        }
    }
}
