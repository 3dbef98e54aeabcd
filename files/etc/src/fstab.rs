//! `/etc/fstab` in the format of fstab(5), parsed as by libmount.

use crate::fields::{escape, fields};
use crate::text::{Edit, lines, rewrite, with_line};

/// The table of the guest's mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fstab {
    text: String,
}

/// An entry of the table. Escapes in the fields are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The device: `UUID=...`, `/dev/vda1`; for a bind mount, the directory.
    pub device: String,
    /// The mount point; `none` for swap.
    pub path: String,
    /// The filesystem type: `ext4`, `swap`; `auto` if the line has none.
    pub kind: String,
    /// The options, separated by commas; empty if the line has none.
    pub options: String,
    /// The fifth field: 1 if dump(8) saves the filesystem.
    pub dump: u8,
    /// The sixth field: the pass of fsck(8) that checks the filesystem; 0 for none.
    pub pass: u8,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = fields(line);
        let (device, path) = (fields.next()?, fields.next()?);
        let kind = fields.next().unwrap_or_else(|| "auto".to_owned());
        let options = fields.next().unwrap_or_default();
        let mut number = || fields.next()?.parse().ok();
        Some(Self {
            device,
            path,
            kind,
            options,
            dump: number().unwrap_or(0),
            pass: number().unwrap_or(0),
        })
    }

    /// Returns the options one by one.
    pub fn each_option(&self) -> impl Iterator<Item = &str> {
        self.options.split(',').filter(|option| !option.is_empty())
    }

    fn line(&self) -> String {
        let fields = [&self.device, &self.path, &self.kind, &self.options];
        let fields = fields.map(|field| escape(field));
        format!("{} {} {}", fields.join(" "), self.dump, self.pass)
    }

    /// Returns true if both entries have the same mount point, or for swap the same device.
    fn replaces(&self, other: &Self) -> bool {
        if self.kind == "swap" {
            self.device == other.device
        } else {
            self.path == other.path
        }
    }
}

impl Fstab {
    /// Creates the table from the text of the file.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the entries with their line numbers, counted from 1. Lines with fewer than two
    /// fields are skipped.
    pub fn entries(&self) -> impl Iterator<Item = (usize, Entry)> {
        lines(&self.text).filter_map(|line| Some((line.number, Entry::parse(line.body)?)))
    }

    /// Removes the lines of the entries for which `is_gone` returns true.
    pub fn remove(&mut self, is_gone: impl Fn(&Entry) -> bool) {
        self.text = rewrite(&self.text, |line| match Entry::parse(line.body) {
            Some(entry) if is_gone(&entry) => Edit::Remove,
            _ => Edit::Keep,
        });
    }

    /// Replaces all entries with the same mount point (for swap, the same device) by a new one, or
    /// adds it at the end. A line that already has the same fields stays unchanged.
    pub fn put(&mut self, new: &Entry) {
        let mut is_done = false;
        let text = rewrite(&self.text, |line| {
            let Some(entry) = Entry::parse(line.body).filter(|entry| new.replaces(entry)) else {
                return Edit::Keep;
            };
            if std::mem::replace(&mut is_done, true) {
                Edit::Remove
            } else if entry == *new {
                Edit::Keep
            } else {
                Edit::Replace(new.line())
            }
        });
        self.text = if is_done {
            text
        } else {
            with_line(text, &new.line())
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(device: &str, path: &str, kind: &str) -> Entry {
        Entry {
            device: device.to_owned(),
            path: path.to_owned(),
            kind: kind.to_owned(),
            options: "defaults".to_owned(),
            dump: 0,
            pass: 2,
        }
    }

    #[test]
    fn lines_have_up_to_six_fields() {
        let fstab = Fstab::new(
            "# static\nUUID=0a \t / ext4 errors=remount-ro,,x=y 0 1\r\n\n   # another\nLABEL=my\\040data /my\\040data\n/dev/vg0/x /srv auto defaults # 1\nlonely\n/a /b none rbind",
        );
        let shown: Vec<_> = fstab
            .entries()
            .map(|(line, it)| format!("{line} {} {} {} {}", it.path, it.kind, it.options, it.pass))
            .collect();
        let expected = [
            "2 / ext4 errors=remount-ro,,x=y 1",
            "5 /my data auto  0",
            "6 /srv auto defaults 1",
            "8 /b none rbind 0",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_entry_takes_the_place_of_those_for_its_mount_point() {
        let mut fstab =
            Fstab::new("#x\n/dev/a  /a\\011b ext3\r\n/dev/b /b ext4\n/dev/c /a\\011b ext2");
        fstab.put(&entry("/dev/d", "/a\tb", "ext4"));
        let expected = "#x\n/dev/d /a\\011b ext4 defaults 0 2\r\n/dev/b /b ext4\n";
        assert_eq!(fstab.text(), expected);
        fstab.put(&entry("/dev/d", "none", "swap"));
        fstab.put(&entry("#d", "/d", "ext4"));
        let (_, last) = fstab.entries().last().unwrap();
        assert_eq!(last.device, "#d");
    }

    #[test]
    fn what_is_so_already_stays() {
        let text = "/dev/a   /a\text4 defaults  0 2 # mine";
        let mut fstab = Fstab::new(text);
        fstab.put(&entry("/dev/a", "/a", "ext4"));
        assert_eq!(fstab.text(), text);
    }

    proptest! {
        #[test]
        fn any_text(bytes: Vec<u8>, path in "/[a b\\\\]{0,4}") {
            let text = crate::text::decode(&bytes);
            let mut fstab = Fstab::new(text.clone());
            fstab.remove(|_| false);
            prop_assert_eq!(fstab.text(), &*text);
            let new = entry("/dev/x", &path, "ext4");
            fstab.put(&new);
            prop_assert!(fstab.entries().any(|(_, entry)| entry == new));
        }
    }
}
