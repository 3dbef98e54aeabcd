//! Changes of modes in the syntax of chmod(1): octal and symbolic.

/// A change of a file's mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModeChange(ModeChangeKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ModeChangeKind {
    /// Sets all twelve bits. On a directory, fewer than five digits keep the set-user-ID and
    /// set-group-ID bits.
    Octal {
        bits: u16,
        digits: usize,
    },
    Symbolic(Vec<Step>),
}

/// A symbolic step: users of `ugoa` with one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// The bits of the users that the step applies to.
    who: u16,
    /// True without `ugoa`: bits of the mask are not changed.
    masked: bool,
    operator: Operator,
    permissions: Vec<Permission>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    Read,
    Write,
    Execute,
    /// The execute bit, if the file is a directory or someone may execute it.
    ExecuteIfAny,
    SetId,
    Sticky,
    /// The current bits of other users, given as the shift of their bits.
    CopyOf(u32),
}

const USER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
/// The bits of others, with the sticky bit, as in GNU chmod.
const OTHER: u16 = 0o1007;
const STICKY: u16 = 0o1000;
const ALL: u16 = 0o7777;
const SET_ID: u16 = 0o6000;

/// The type of file that is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileClass {
    Directory,
    Other,
}

impl ModeChange {
    /// Parses a mode: `0755`, `u=rwx,go=rX`, `+t`, `g=u`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid mode `{text}`; write 0644, u+x or go=rX");
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let bits = u16::from_str_radix(text, 8).map_err(|_| wrong())?;
            return (bits <= ALL)
                .then_some(Self(ModeChangeKind::Octal {
                    bits,
                    digits: text.len(),
                }))
                .ok_or_else(wrong);
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut steps).ok_or_else(wrong)?;
        }
        Ok(Self(ModeChangeKind::Symbolic(steps)))
    }

    /// Returns the new mode for `mode`.
    pub(crate) fn apply(&self, mode: u16, class: FileClass, umask: u16) -> u16 {
        match &self.0 {
            ModeChangeKind::Octal { bits, digits } => {
                // As in GNU chmod, these bits of a directory are cleared only by five digits or by
                // name.
                let kept = if class == FileClass::Directory && *digits < 5 {
                    mode & SET_ID
                } else {
                    0
                };
                bits | kept
            }
            ModeChangeKind::Symbolic(steps) => steps
                .iter()
                .fold(mode, |mode, step| step.apply(mode, class, umask)),
        }
    }
}

/// Parses a clause such as `ug+rw-x`: users, then operators with permissions.
fn parse_clause(clause: &str, steps: &mut Vec<Step>) -> Option<()> {
    let start = clause.find(['+', '-', '='])?;
    let (names, mut rest) = clause.split_at(start);
    let mut who = 0;
    for name in names.chars() {
        who |= match name {
            'u' => USER,
            'g' => GROUP,
            'o' => OTHER,
            'a' => USER | GROUP | OTHER,
            _ => return None,
        };
    }
    let masked = names.is_empty();
    let who = if masked { USER | GROUP | OTHER } else { who };
    while let Some(sign) = rest.chars().next() {
        let operator = match sign {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            '=' => Operator::Set,
            _ => return None,
        };
        let letters = rest.get(1..)?;
        let end = letters.find(['+', '-', '=']).unwrap_or(letters.len());
        let permissions = letters.get(..end)?.chars().map(permission);
        steps.push(Step {
            who,
            masked,
            operator,
            permissions: permissions.collect::<Option<_>>()?,
        });
        rest = letters.get(end..)?;
    }
    Some(())
}

fn permission(letter: char) -> Option<Permission> {
    Some(match letter {
        'r' => Permission::Read,
        'w' => Permission::Write,
        'x' => Permission::Execute,
        'X' => Permission::ExecuteIfAny,
        's' => Permission::SetId,
        't' => Permission::Sticky,
        'u' => Permission::CopyOf(6),
        'g' => Permission::CopyOf(3),
        'o' => Permission::CopyOf(0),
        _ => return None,
    })
}

impl Step {
    fn apply(&self, mode: u16, class: FileClass, umask: u16) -> u16 {
        let wanted = self.permissions.iter();
        let wanted = wanted.fold(0, |bits, permission| bits | permission.bits(mode, class));
        let mask = if self.masked { umask & 0o777 } else { 0 };
        let bits = wanted & self.who & !mask;
        match self.operator {
            Operator::Add => mode | bits,
            Operator::Remove => mode & !bits,
            Operator::Set => {
                let kept = if class == FileClass::Directory {
                    SET_ID
                } else {
                    0
                };
                mode & (!self.who | kept) | bits
            }
        }
    }
}

impl Permission {
    fn bits(self, mode: u16, class: FileClass) -> u16 {
        match self {
            Self::Read => 0o444,
            Self::Write => 0o222,
            Self::Execute => 0o111,
            Self::ExecuteIfAny if class == FileClass::Directory || mode & 0o111 != 0 => 0o111,
            Self::ExecuteIfAny => 0,
            Self::SetId => SET_ID,
            Self::Sticky => STICKY,
            Self::CopyOf(shift) => (mode >> shift & 0o7) * 0o111,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u16) -> u16 {
        ModeChange::parse(text)
            .unwrap()
            .apply(mode, FileClass::Other, 0o022)
    }

    fn dir(text: &str, mode: u16) -> u16 {
        ModeChange::parse(text)
            .unwrap()
            .apply(mode, FileClass::Directory, 0o022)
    }

    /// The expected values are those of chmod(1) of coreutils with umask 022.
    #[test]
    fn modes_are_those_of_chmod() {
        for (text, before, after) in [
            ("644", 0o777, 0o644),
            ("4755", 0, 0o4755),
            ("u+x", 0o644, 0o744),
            ("+x", 0o644, 0o755),
            ("+w", 0o444, 0o644),
            ("-w", 0o666, 0o466),
            ("go=", 0o777, 0o700),
            ("a=rX", 0o644, 0o444),
            ("a=rX", 0o744, 0o555),
            ("g=u", 0o740, 0o770),
            ("o=g-w", 0o770, 0o775),
            ("u=rwx,go=rx", 0, 0o755),
            ("ug+s", 0o755, 0o6755),
            ("+t", 0o755, 0o1755),
            ("o+t", 0o755, 0o1755),
            ("=", 0o7777, 0),
            ("=r", 0o777, 0o444),
            ("u-s", 0o4755, 0o755),
        ] {
            assert_eq!(file(text, before), after, "{text} of {before:o}");
        }
    }

    #[test]
    fn directories_keep_their_set_ids() {
        assert_eq!(dir("755", 0o2700), 0o2755);
        assert_eq!(dir("00755", 0o2700), 0o755);
        assert_eq!(dir("g=rx", 0o2770), 0o2750);
        assert_eq!(dir("g-s", 0o2770), 0o770);
        assert_eq!(dir("a+X", 0o600), 0o711);
        assert_eq!(dir("=", 0o7777), 0o6000);
        assert_eq!(dir("u+t", 0o755), 0o755);
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for text in ["", "8", "99999", "u", "z+x", "u+q", "u+x,,", "+x,"] {
            assert!(ModeChange::parse(text).is_err(), "{text}");
        }
    }
}
