//! The texts of an SELinux policy, concatenated.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_selinux::{Config, Context, FileKind, Labels, Texts};

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const TEXT_BYTES: u64 = 16 << 10;

/// The separator of the texts: ASCII's record separator.
const SEPARATOR: u8 = 0x1e;

/// The paths to look up: typical files that are created in a guest.
const PATHS: [&str; 6] = [
    "/",
    "/etc/shadow",
    "/etc/conf.d//x.conf/",
    "/home/u/.ssh/authorized_keys",
    "/usr/lib64/a.b/c/d/e/x.so",
    "/dev/sda1",
];

/// Looks up the labels of some paths, and of the last text as a path.
pub(crate) fn labels(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(TEXT_BYTES);
    let mut input = vec![0; usize::try_from(len).unwrap_or(0)];
    if device.read_at(0, &mut input).is_err() {
        return;
    }
    let mut texts = input.split(|byte| *byte == SEPARATOR);
    let mut text = || texts.next().unwrap_or_default();
    let _ = Config::parse(text()).contexts_directory();
    let texts = Texts {
        file_contexts: text(),
        homedirs: text(),
        local: text(),
        subs_dist: text(),
        subs: text(),
    };
    let path = text();
    let Ok(labels) = Labels::parse(&texts) else {
        return;
    };
    for path in PATHS.map(str::as_bytes).into_iter().chain([path]) {
        for kind in FileKind::ALL {
            let label = labels.label_for(path, kind).map(Context::as_str);
            assert!(label.is_none_or(|label| Context::parse(label).is_some()));
        }
    }
}

/// Returns the policy of the label tests, and one in which every line has a problem.
pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    let texts = [
        "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
        include_str!("../../../files/selinux/tests/policy/file_contexts"),
        include_str!("../../../files/selinux/tests/policy/file_contexts.homedirs"),
        include_str!("../../../files/selinux/tests/policy/file_contexts.local"),
        include_str!("../../../files/selinux/tests/policy/file_contexts.subs_dist"),
        include_str!("../../../files/selinux/tests/policy/file_contexts.subs"),
        "/var/run/lock/x",
    ];
    let patterns = include_str!("../../../files/selinux/tests/policy/patterns");
    let of = |input: &str| {
        let mut sparse = Sparse::zeroes(input.len() as u64);
        sparse.write(0, input.as_bytes());
        sparse
    };
    let lines = patterns.lines().map(|line| format!("/t/{line} u:r:t\n"));
    let patterns = format!("\u{1e}{}", lines.collect::<String>());
    [
        ("policy", of(&texts.join("\u{1e}"))),
        ("patterns", of(&patterns)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_read_whole() {
        for (name, image) in seeds() {
            assert!(image.size_bytes() < TEXT_BYTES, "{name}");
        }
    }
}
