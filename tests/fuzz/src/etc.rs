//! The text files of `/etc`, concatenated.

use std::convert::Infallible;
use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_etc::authorized_keys::AuthorizedKeys;
use diskfs_etc::fstab::{Entry, Fstab};
use diskfs_etc::sshd_config::{self, Config};
use diskfs_etc::sudoers::Sudoers;
use diskfs_etc::table::Table;
use diskfs_etc::{Files, crypttab, group, gshadow, passwd, shadow, text};

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const TEXT_BYTES: u64 = 16 << 10;

/// The separator of the texts: ASCII's record separator.
const SEPARATOR: u8 = 0x1e;

/// A file source in which every path has the same text and each pattern matches two paths, so that
/// includes never end by themselves.
struct Same(String);

impl Files for Same {
    type Error = Infallible;

    fn text(&self, _: &str) -> Result<Option<String>, Infallible> {
        Ok(Some(self.0.clone()))
    }

    fn names(&self, dir: &str) -> Result<Vec<String>, Infallible> {
        Ok(vec!["a".to_owned(), format!("b{}", dir.len())])
    }

    fn expand(&self, pattern: &str) -> Result<Vec<String>, Infallible> {
        Ok(vec![pattern.to_owned(), format!("{pattern}/a")])
    }
}

/// Parses and edits each text.
pub(crate) fn texts(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(TEXT_BYTES);
    let mut input = vec![0; usize::try_from(len).unwrap_or(0)];
    if device.read_at(0, &mut input).is_err() {
        return;
    }
    let mut texts = input.split(|byte| *byte == SEPARATOR);
    let mut next = || {
        let bytes = texts.next().unwrap_or_default();
        let decoded = text::decode(bytes);
        assert_eq!(text::encode(&decoded), bytes);
        decoded
    };
    table(next());
    mounts(&next());
    let _ = crypttab::entries(&next()).count();
    sshd(next());
    keys(&next());
    let _ = Sudoers::read(&Same(next()));
}

fn table(text: String) {
    let mut table = Table::new(text);
    let name = passwd::users(&table)
        .last()
        .map(|user| user.name.to_owned());
    let name = name.unwrap_or_default();
    let _ = (shadow::hashes(&table).len(), group::groups(&table).count());
    table.set(&name, passwd::SHELL, "v");
    table.pad(&name, shadow::FIELDS);
    group::add_member(&mut table, &name, "m");
    group::remove_member(&mut table, "m");
    table.remove(&name);
    assert_eq!(table.row(&name), None);
    gshadow::add(&mut table, "g");
    assert!(table.row("g").is_some());
}

fn mounts(text: &str) {
    let mut fstab = Fstab::new(text);
    fstab.remove(|_| false);
    assert_eq!(fstab.text(), text);
    let last = fstab.entries().last().map(|(_, entry)| entry);
    let path = last.map_or_else(|| "/a".to_owned(), |entry| entry.path);
    let new = Entry {
        device: "#a b".to_owned(),
        path,
        kind: "ext4".to_owned(),
        options: "ro".to_owned(),
        dump: 0,
        pass: 2,
    };
    fstab.put(&new);
    assert!(fstab.entries().any(|(_, entry)| entry == new));
}

fn sshd(text: String) {
    let set = sshd_config::with_setting(&text, "Port", "1");
    assert_eq!(sshd_config::with_setting(&set, "Port", "1"), set);
    let Ok(config) = Config::read(&Same(text));
    let _ = config.map(|config| config.first("permitrootlogin").cloned());
}

fn keys(text: &str) {
    let mut keys = AuthorizedKeys::new(text);
    keys.remove(|key| key.fields().count() > 9);
    keys.add("x");
    keys.remove(|_| true);
    assert_eq!(keys.keys().count(), 0);
}

/// Returns a seed with texts of all kinds.
pub(crate) fn seed() -> Sparse {
    let texts = [
        "root:x:0:0:root:/root:/bin/sh\nann:$y$x:1:1000:ann,root:/home/ann\n#c\n+::::::\n",
        "# c\nUUID=1 / ext4 errors=remount-ro 0 1\n/dev/a /a\\040b none rbind # x\n/dev/b none swap sw\n",
        "root UUID=12 none luks\nswap /dev/sda2\n",
        "Include sshd_config.d/*.conf\nPermitRootLogin = no # x\nMatch User a\nBanner \"/a b\"\nMatch all\nPort 22\n",
        "# c\nno-pty,command=\"a \\\"b\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL c\n",
        "Defaults x\n%sudo, \"a b\" ALL=(ALL:ALL) NOPASSWD: \\\n ALL # c\n@includedir /etc/sudoers.d\n#include x\n",
    ];
    let input = texts.join("\u{1e}");
    let mut sparse = Sparse::zeroes(input.len() as u64);
    sparse.write(0, input.as_bytes());
    sparse
}
