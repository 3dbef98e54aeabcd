//! Random qcow2 images, made by qemu-img and qemu-io. Most have changed tables.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{command, output};
use crate::random::Random;

/// The file name of the image.
pub(super) const IMAGE: &str = "disk.qcow2";

/// The name of the internal snapshot, if there is one.
pub(super) const SNAPSHOT: &str = "before";

/// Creates an image in `directory`, with a backing file or not. Returns true if it has a snapshot.
pub(super) fn build(random: &mut Random, directory: &Path) -> Result<bool> {
    let size = any_size(random);
    let backing = match random.below(4) {
        0 => Some("qcow2"),
        1 => Some("raw"),
        _ => None,
    };
    if let Some(format) = backing {
        let base_size = any_size(random);
        create(directory, "base", format, base_size, None, random)?;
        write(directory, "base", format, base_size, random)?;
    }
    create(directory, IMAGE, "qcow2", size, backing, random)?;
    write(directory, IMAGE, "qcow2", size, random)?;
    // qemu-img refuses a snapshot of some images, such as those with an external data file.
    let mut snapshot = command("qemu-img");
    snapshot.args(["snapshot", "-c", SNAPSHOT, IMAGE]);
    let has_snapshot =
        random.below(4) == 0 && output(snapshot.current_dir(directory))?.status.success();
    if has_snapshot {
        write(directory, IMAGE, "qcow2", size, random)?;
    }
    if random.below(4) > 0 {
        let path = directory.join(IMAGE);
        let mut bytes = std::fs::read(&path)?;
        for _ in 0..=random.below(3) {
            change_tables(&mut bytes, random);
        }
        // The holes stay: only the changed bytes are written.
        rewrite(&path, &bytes)?;
    }
    Ok(has_snapshot)
}

fn any_size(random: &mut Random) -> u64 {
    let unit = *random.pick(&[512, 64 << 10, 256 << 10]);
    (1 << 20) + random.below(20) * unit
}

fn create(
    directory: &Path,
    name: &str,
    format: &str,
    size: u64,
    backing: Option<&str>,
    random: &mut Random,
) -> Result<()> {
    let mut create = command("qemu-img");
    create.args(["create", "-q", "-f", format]);
    if format == "qcow2" {
        create.args(["-o", &any_options(name, random, backing.is_some())]);
    }
    if let Some(backing) = backing {
        create.args(["-b", "base", "-F", backing]);
    }
    let out = output(
        create
            .args([name, &size.to_string()])
            .current_dir(directory),
    )?;
    ensure!(out.status.success(), "{create:?}: {out:?}");
    Ok(())
}

fn any_options(name: &str, random: &mut Random, has_backing: bool) -> String {
    let cluster = *random.pick(&[512, 1024, 4096, 16 << 10, 64 << 10, 64 << 10, 1 << 20]);
    let mut options = format!("cluster_size={cluster}");
    if random.below(6) == 0 {
        return options + ",compat=0.10";
    }
    let refcounts = *random.pick(&["", ",refcount_bits=1", ",refcount_bits=64"]);
    options.push_str(refcounts);
    if cluster >= 16 << 10 && random.below(2) == 0 {
        options.push_str(",extended_l2=on");
    }
    let data_file = format!(",data_file={name}.data");
    match random.below(6) {
        0 => options.push_str(",compression_type=zstd"),
        1 if !has_backing => options.push_str(",preallocation=metadata"),
        2 if !has_backing => options = options + &data_file + ",data_file_raw=on",
        3 => options.push_str(&data_file),
        _ => {}
    }
    options
}

/// Writes patterns, zeroes and compressed clusters. Commands that the image does not support have
/// no effect.
fn write(directory: &Path, name: &str, format: &str, size: u64, random: &mut Random) -> Result<()> {
    let mut io = command("qemu-io");
    io.args(["-f", format, "-d", "unmap"]);
    for _ in 0..2 + random.below(10) {
        let align = *random.pick(&[512, 4096, 64 << 10]);
        let at = random.below(size) / align * align;
        let longest = *random.pick(&[4096, 64 << 10, 600 << 10]);
        let len = ((random.below(longest) / align + 1) * align).min(size - at);
        let pattern = 1 + random.below(255);
        io.args([
            "-c",
            &match random.below(8) {
                0 => format!("write -z {at} {len}"),
                1 => format!("write -z -u {at} {len}"),
                2 => format!("discard {at} {len}"),
                3 | 4 => format!("write -c -P {pattern} {at} {len}"),
                _ => format!("write -P {pattern} {at} {len}"),
            },
        ]);
    }
    output(io.arg(name).current_dir(directory))?;
    Ok(())
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes(*word))
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Changes an entry of the L1 table or of an L2 table.
fn change_tables(bytes: &mut [u8], random: &mut Random) {
    const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
    let word = |at| number(bytes, at).unwrap_or(0);
    let cluster = 1 << (word(20) >> 32);
    let l1 = word(40);
    let l1_entries = word(36) >> 32;
    let is_extended = word(4) >> 32 == 3 && word(72) & 0x10 != 0;
    let mut at = l1 + 8 * any_entry(bytes, l1, 8, l1_entries, random);
    if random.below(5) > 0 {
        let table = word(index(at)) & OFFSET;
        let entry_len = if is_extended { 16 } else { 8 };
        if table != 0 {
            at =
                table + entry_len * any_entry(bytes, table, entry_len, cluster / entry_len, random);
            if is_extended && random.below(2) == 0 {
                let bitmap = changed_bitmap(word(index(at + 8)), random);
                return put(bytes, at + 8, bitmap);
            }
        }
    }
    let entry = changed_entry(word(index(at)), bytes.len() as u64, cluster, random);
    put(bytes, at, entry);
}

/// Returns the index of an entry, usually of one that is not zero.
fn any_entry(bytes: &[u8], table: u64, len: u64, count: u64, random: &mut Random) -> u64 {
    let mut entry = 0;
    for _ in 0..40 {
        entry = random.below(count);
        if number(bytes, index(table + len * entry)).is_some_and(|value| value != 0) {
            break;
        }
    }
    entry
}

fn changed_bitmap(bitmap: u64, random: &mut Random) -> u64 {
    match random.below(5) {
        0 => 0,
        1 => u64::MAX >> 32,
        2 => u64::MAX << 32,
        3 => random.next(),
        _ => bitmap ^ 1 << random.below(64),
    }
}

fn changed_entry(entry: u64, file_len: u64, cluster: u64, random: &mut Random) -> u64 {
    const FLAGS: u64 = 3 << 62 | 1;
    let clusters = file_len.div_ceil(cluster);
    match random.below(24) {
        0..3 => 0,
        3..6 => entry ^ 1 << 63,
        6..9 => entry ^ 1,
        9..12 => entry ^ 1 << 62,
        12 => entry ^ 1 << random.below(64),
        13..20 => (entry & FLAGS) | (random.below(clusters) * cluster),
        20 => (entry & FLAGS) | ((clusters + random.below(4)) * cluster),
        21 => entry.wrapping_add(512),
        22 => entry ^ 1 << (56 + random.below(6)),
        _ => random.next(),
    }
}

fn put(bytes: &mut [u8], at: u64, value: u64) {
    if let Some(place) = bytes
        .get_mut(index(at)..)
        .and_then(|rest| rest.get_mut(..8))
    {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes the blocks of `bytes` that differ from the file's.
fn rewrite(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::FileExt;

    let old = std::fs::read(path)?;
    let file = std::fs::File::options().write(true).open(path)?;
    for (n, (new, old)) in (0..).zip(bytes.chunks(512).zip(old.chunks(512))) {
        if new != old {
            file.write_all_at(new, n * 512)?;
        }
    }
    Ok(())
}
