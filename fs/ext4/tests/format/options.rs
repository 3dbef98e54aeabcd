//! Options in the form of mke2fs's command line, so that both programs get the same.

use diskfs_ext4::{FormatKind, FormatOptions};
use diskfs_vfs::Timestamp;

/// The UUID, the hash seed and the time of all filesystems.
pub(crate) const UUID: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const HASH_SEED: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
pub(crate) const TIME: i64 = 1_700_000_000;

/// Returns the options of a command line.
pub(crate) fn parse(args: &str) -> FormatOptions {
    let mut options = FormatOptions {
        kind: FormatKind::Ext2,
        time: Timestamp {
            seconds: TIME,
            nanoseconds: 7,
        },
        ..FormatOptions::default()
    };
    for (nth, byte) in options.uuid.iter_mut().enumerate() {
        *byte = [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44][nth.min(9)];
        if nth >= 10 {
            *byte = 0x55;
        }
    }
    options
        .parse_extended(&format!("hash_seed={HASH_SEED}"))
        .unwrap();
    let words: Vec<_> = args.split_whitespace().collect();
    for pair in words.chunks(2) {
        set(&mut options, pair[0], pair[1]);
    }
    options
}

fn set(options: &mut FormatOptions, letter: &str, value: &str) {
    let number = || value.parse().unwrap();
    match letter {
        "-t" => {
            options.kind = match value {
                "ext2" => FormatKind::Ext2,
                "ext3" => FormatKind::Ext3,
                "ext4" => FormatKind::Ext4,
                _ => panic!("{value}"),
            }
        }
        "-b" => options.block_bytes = Some(number()),
        "-C" => options.cluster_bytes = Some(number()),
        "-I" => options.inode_bytes = Some(value.parse().unwrap()),
        "-i" => options.bytes_per_inode = Some(value.parse().unwrap()),
        "-N" => options.inodes = Some(value.parse().unwrap()),
        "-g" => options.blocks_per_group = Some(number()),
        "-G" => options.groups_per_flex = Some(number()),
        "-m" => options.parse_reserved(value).unwrap(),
        "-L" => value.clone_into(&mut options.label),
        "-T" => options.parse_usage(value).unwrap(),
        "-O" => options.parse_features(value).unwrap(),
        "-E" => options.parse_extended(value).unwrap(),
        "-J" => options.parse_journal(value).unwrap(),
        _ => panic!("unknown option {letter}"),
    }
}
