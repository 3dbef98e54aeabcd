//! `/etc/fstab`, as fstab(5) has it.

use super::entry::{MountEntry, Origin, options};

/// The entries, in their order. A line with fewer than two fields is none.
pub fn parse(text: &[u8]) -> Vec<MountEntry> {
    let lines = text.split(|&byte| byte == b'\n').zip(1..);
    lines
        .filter_map(|(line, number)| entry(line, number))
        .collect()
}

fn entry(line: &[u8], number: usize) -> Option<MountEntry> {
    let mut fields = fields(line);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let what = text(fields.next()?);
    let at = fields.next()?;
    let kind = fields.next().map_or_else(|| "auto".to_owned(), text);
    let options = options(&fields.next().map(text).unwrap_or_default());
    Some(MountEntry {
        what,
        at,
        kind,
        options,
        origin: Origin::Fstab(number),
    })
}

/// The fields of a line, with the escapes taken out: `\040` is a space. A comment has none.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let is_comment = line.iter().find(|byte| !is_space(byte)) == Some(&b'#');
    let line = if is_comment { &[] } else { line };
    line.split(is_space)
        .filter(|field| !field.is_empty())
        .map(unescape)
}

/// Takes out the escapes of getmntent(3): a backslash with three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_up_to_six_fields() {
        let text = b"# static\n\
            UUID=0a \t / ext4 errors=remount-ro,,x=y 0 1\r\n\
            \n   # another\n\
            LABEL=my\\040data /my\\040data\n\
            /dev/vg0/x /sr\\134v auto defaults # 1\n\
            lonely\n\
            /a\\0 /b\\999 none rbind";
        let entries = parse(text);
        let shown: Vec<_> = entries
            .iter()
            .map(|e| {
                let at = String::from_utf8(e.at.clone()).unwrap();
                (e.what.as_str(), at, e.kind.as_str(), e.options.join(" "))
            })
            .collect();
        let expected = [
            ("UUID=0a", "/", "ext4", "errors=remount-ro x=y"),
            ("LABEL=my data", "/my data", "auto", ""),
            ("/dev/vg0/x", "/sr\\v", "auto", "defaults"),
            ("/a\\0", "/b\\999", "none", "rbind"),
        ];
        let expected = expected.map(|(a, b, c, d)| (a, b.to_owned(), c, d.to_owned()));
        assert_eq!(shown, expected);
        assert_eq!(entries[1].origin, Origin::Fstab(5));
        assert!(entries[3].is_bind());
    }
}
