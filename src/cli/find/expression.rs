//! Parsing of expressions: tests and actions joined by `-a`, `-o`, `!` and parentheses, as POSIX
//! specifies for find(1). `-a` binds tighter than `-o`.

use diskfs::vfs::glob::{Case, Pattern};
use diskfs::{Error, ErrorKind, Result};

use super::printf::{Format, FoundFile};
use super::regex::{self, Syntax};
use super::test::{Context, Number, Permissions, Test, TimeField};

/// The maximum nesting of parentheses and `!`, which is the recursion depth of the parser.
const MAX_NESTING: usize = 100;

/// A parsed expression with its options.
#[derive(Debug)]
pub(super) struct Expression {
    root: Node,
    pub(super) max_depth: Option<usize>,
    pub(super) min_depth: usize,
}

#[derive(Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
    Action(Action),
}

/// An action that is applied to a file.
#[derive(Debug)]
pub(super) enum Action {
    Print,
    Print0,
    Printf(Format),
    Ls,
    Prune,
    Quit,
}

impl Expression {
    /// Parses the words after the image.
    pub(super) fn parse(words: Vec<Vec<u8>>) -> Result<Self> {
        let mut parser = Parser {
            words: words.into_iter().peekable(),
            max_depth: None,
            min_depth: 0,
            acts: false,
            nesting: 0,
            syntax: Syntax::EMACS,
        };
        let mut root = Node::And(Vec::new());
        if parser.words.peek().is_some() {
            root = parser.alternatives()?;
        }
        if let Some(word) = parser.words.next() {
            return Err(usage(format!("unmatched `{}`", shown(&word))));
        }
        if !parser.acts {
            root = Node::And(vec![root, Node::Action(Action::Print)]);
        }
        Ok(Self {
            root,
            max_depth: parser.max_depth,
            min_depth: parser.min_depth,
        })
    }

    /// Looks up the names that tests contain in the image: `-newer /path`, `-user name`.
    pub(super) fn bind(mut self, context: &Context<'_>) -> Result<Self> {
        self.root.bind(context)?;
        Ok(self)
    }

    /// Evaluates the tests and actions for one file.
    pub(super) fn evaluate(
        &self,
        found: &FoundFile<'_>,
        context: &Context<'_>,
        act: &mut dyn FnMut(&Action) -> Result<()>,
    ) -> Result<bool> {
        self.root.evaluate(found, context, act)
    }
}

impl Node {
    fn bind(&mut self, context: &Context<'_>) -> Result<()> {
        match self {
            Self::And(nodes) | Self::Or(nodes) => {
                nodes.iter_mut().try_for_each(|n| n.bind(context))
            }
            Self::Not(node) => node.bind(context),
            Self::Test(test) => test.bind(context),
            Self::Action(_) => Ok(()),
        }
    }

    fn evaluate(
        &self,
        found: &FoundFile<'_>,
        context: &Context<'_>,
        act: &mut dyn FnMut(&Action) -> Result<()>,
    ) -> Result<bool> {
        match self {
            Self::And(nodes) => {
                for node in nodes {
                    if !node.evaluate(found, context, act)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(nodes) => {
                for node in nodes {
                    if node.evaluate(found, context, act)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(node) => Ok(!node.evaluate(found, context, act)?),
            Self::Test(test) => test.holds(found, context),
            Self::Action(action) => act(action).map(|()| true),
        }
    }
}

struct Parser {
    words: std::iter::Peekable<std::vec::IntoIter<Vec<u8>>>,
    max_depth: Option<usize>,
    min_depth: usize,
    /// True if an action prints; otherwise, `-print` is implied.
    acts: bool,
    nesting: usize,
    /// The syntax of the following `-regex` tests.
    syntax: Syntax,
}

impl Parser {
    fn next_is(&mut self, names: &[&[u8]]) -> bool {
        self.words
            .peek()
            .is_some_and(|word| names.contains(&plain(word)))
    }

    fn alternatives(&mut self) -> Result<Node> {
        let mut nodes = vec![self.conjunction()?];
        while self.next_is(&[b"-o", b"-or"]) {
            self.words.next();
            nodes.push(self.conjunction()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            Node::Or(nodes)
        })
    }

    fn conjunction(&mut self) -> Result<Node> {
        let mut nodes = vec![self.factor()?];
        while self.words.peek().is_some() && !self.next_is(&[b"-o", b"-or", b")"]) {
            if self.next_is(&[b"-a", b"-and"]) {
                self.words.next();
            }
            nodes.push(self.factor()?);
        }
        Ok(Node::And(nodes))
    }

    fn factor(&mut self) -> Result<Node> {
        let word = self
            .words
            .next()
            .ok_or_else(|| usage("unexpected end of the expression".to_owned()))?;
        match plain(&word) {
            b"!" | b"-not" => self.nested(|parser| Ok(Node::Not(Box::new(parser.factor()?)))),
            b"(" => self.nested(|parser| {
                let inside = parser.alternatives()?;
                match parser.words.next().as_deref() {
                    Some(b")") => Ok(inside),
                    _ => Err(usage("unmatched `(`".to_owned())),
                }
            }),
            name => self.primary(name, &word),
        }
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Result<Node>) -> Result<Node> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(usage(format!(
                "the expression is nested too deeply, at most {MAX_NESTING} levels"
            )));
        }
        let node = parse(self);
        self.nesting -= 1;
        node
    }

    fn primary(&mut self, name: &[u8], word: &[u8]) -> Result<Node> {
        let test = match name {
            b"-print" => return Ok(self.action(Action::Print)),
            b"-print0" => return Ok(self.action(Action::Print0)),
            b"-ls" => return Ok(self.action(Action::Ls)),
            b"-printf" => {
                let format = Format::parse(&self.argument(word)?)?;
                return Ok(self.action(Action::Printf(format)));
            }
            b"-prune" => return Ok(Node::Action(Action::Prune)),
            b"-quit" => return Ok(Node::Action(Action::Quit)),
            b"-maxdepth" => {
                self.max_depth = Some(self.depth(word)?);
                Test::True
            }
            b"-mindepth" => {
                self.min_depth = self.depth(word)?;
                Test::True
            }
            b"-regextype" => {
                self.syntax = Syntax::of(&self.argument(word)?)?;
                Test::True
            }
            b"-true" => Test::True,
            b"-false" => return Ok(Node::Not(Box::new(Node::Test(Test::True)))),
            b"-empty" => Test::Empty,
            _ => self.test(name, word)?,
        };
        Ok(Node::Test(test))
    }

    fn test(&mut self, name: &[u8], word: &[u8]) -> Result<Test> {
        let pattern = |parser: &mut Self, case| -> Result<Pattern> {
            Ok(Pattern::new(parser.argument(word)?, case)?)
        };
        Ok(match name {
            b"-name" => Test::Name(pattern(self, Case::Sensitive)?),
            b"-iname" => Test::Name(pattern(self, Case::Insensitive)?),
            b"-path" | b"-wholename" => Test::Path(pattern(self, Case::Sensitive)?),
            b"-ipath" | b"-iwholename" => Test::Path(pattern(self, Case::Insensitive)?),
            b"-regex" | b"-iregex" => {
                let case = match name {
                    b"-regex" => Case::Sensitive,
                    _ => Case::Insensitive,
                };
                Test::Regex(regex::compile(&self.argument(word)?, self.syntax, case)?)
            }
            b"-type" => Test::parse_types(&self.argument(word)?)?,
            b"-size" => Test::parse_size(&self.argument(word)?)?,
            b"-mtime" => Test::age(TimeField::Modified, 86_400, self.number(word)?),
            b"-mmin" => Test::age(TimeField::Modified, 60, self.number(word)?),
            b"-ctime" => Test::age(TimeField::Changed, 86_400, self.number(word)?),
            b"-cmin" => Test::age(TimeField::Changed, 60, self.number(word)?),
            b"-atime" => Test::age(TimeField::Accessed, 86_400, self.number(word)?),
            b"-amin" => Test::age(TimeField::Accessed, 60, self.number(word)?),
            b"-newer" => Test::Newer {
                than: self.argument(word)?,
                time: None,
            },
            b"-newermt" => Test::parse_newer_time(&self.argument(word)?)?,
            b"-user" | b"-owner" => Test::User {
                name: self.argument(word)?,
                uid: None,
            },
            b"-group" => Test::Group {
                name: self.argument(word)?,
                gid: None,
            },
            b"-uid" => Test::Uid(self.number(word)?),
            b"-gid" => Test::Gid(self.number(word)?),
            b"-links" => Test::Links(self.number(word)?),
            b"-inum" => Test::Inode(self.number(word)?),
            b"-perm" | b"-mode" => Test::Permissions(Permissions::parse(&self.argument(word)?)?),
            b"-xattr" => Test::Xattr(pattern(self, Case::Sensitive)?),
            _ => return Err(unsupported_action(name).unwrap_or_else(|| unknown(word))),
        })
    }

    fn action(&mut self, action: Action) -> Node {
        self.acts = true;
        Node::Action(action)
    }

    fn argument(&mut self, of: &[u8]) -> Result<Vec<u8>> {
        self.words
            .next()
            .ok_or_else(|| usage(format!("missing argument of `{}`", shown(of))))
    }

    fn number(&mut self, of: &[u8]) -> Result<Number> {
        Number::parse(&self.argument(of)?)
    }

    fn depth(&mut self, of: &[u8]) -> Result<usize> {
        let word = self.argument(of)?;
        let number = std::str::from_utf8(&word)
            .ok()
            .and_then(|text| text.parse().ok());
        number.ok_or_else(|| {
            usage(format!(
                "invalid depth `{}`: expected a number",
                shown(&word)
            ))
        })
    }
}

/// Returns `--name` as `-name`; both forms are accepted.
fn plain(word: &[u8]) -> &[u8] {
    match word.strip_prefix(b"--") {
        Some(rest) if !rest.is_empty() => &word[1..],
        _ => word,
    }
}

fn shown(word: &[u8]) -> String {
    super::super::show::name::text(word)
}

pub(super) fn usage(reason: String) -> Error {
    Error::new(ErrorKind::Invalid, reason).with_hint("see `diskfs find --help`")
}

/// Returns the error for an action of find(1) that other commands do here.
fn unsupported_action(name: &[u8]) -> Option<Error> {
    let hint = match name {
        b"-delete" => "pipe the names: `diskfs find IMG ... -print0 | xargs -0 diskfs rm IMG`",
        b"-exec" | b"-execdir" | b"-ok" | b"-okdir" => {
            "pipe the names: `diskfs find IMG ... -print0 | xargs -0 diskfs cat IMG` (or rm, \
             chmod, chown, cp, grep); for other programs, use `diskfs mount`"
        }
        b"-fprint" | b"-fprint0" | b"-fprintf" | b"-fls" => {
            "redirect the output: `diskfs find IMG ... -print > FILE`"
        }
        _ => return None,
    };
    let reason = format!(
        "unsupported action `{}`: diskfs find only prints names",
        shown(name)
    );
    Some(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
}

fn unknown(word: &[u8]) -> Error {
    let reason = format!("unknown test or action `{}`", shown(word));
    let hint = "options of diskfs itself (--volume, --json) come before the first test";
    Error::new(ErrorKind::Invalid, reason).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Expression> {
        Expression::parse(
            words
                .split_ascii_whitespace()
                .map(|word| word.as_bytes().to_vec())
                .collect(),
        )
    }

    #[test]
    fn takes_what_find_takes() {
        for words in [
            "",
            "-name *.conf",
            "--name *.conf --type f,l",
            "( -name a -o -name b ) ! -type d -print0",
            "-maxdepth 2 -mindepth 1 -size +10k -mtime -7",
            "-perm /6000 -user root -newer /etc/fstab",
            "--mode /6000 --owner root --xattr security.*",
            "-regex .*/a+ -iregex .*/\\(a\\|b\\) -regextype posix-extended -regex .*(a|b)",
            "-path /proc -prune -o -printf %p\\n",
        ] {
            assert!(parse(words).is_ok(), "{words}");
        }
    }

    #[test]
    fn what_others_do_is_answered_with_the_command() {
        for (words, command) in [
            ("-name *.gz -delete", "xargs -0 diskfs rm IMG"),
            ("-exec cat {} ;", "xargs -0 diskfs cat IMG"),
            ("-fprint names", "> FILE"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.next_step().unwrap().contains(command), "{error}");
        }
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for words in [
            "-name",
            "-nmae x",
            "( -name a",
            "-name a )",
            "-o",
            "-size x",
            "-type q",
            "-perm 9",
            "-xattr",
            "! ",
            "-maxdepth -1",
            "-printf %Q",
            "-regex",
            "-regex \\(",
            "-regextype perl",
            "--json",
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{words}");
        }
        assert!(parse(&"( ".repeat(200_000)).is_err());
        assert!(parse(&"! ".repeat(200_000)).is_err());
    }
}
