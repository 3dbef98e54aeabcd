//! Generation of paths that a pattern matches. It supports the patterns that policies use, and
//! shares no code with the crate's parser.

/// Returns a path that the pattern matches. The seed makes the choices.
pub(crate) fn instance(pattern: &str, seed: u64) -> String {
    let mut maker = Maker {
        rest: pattern
            .chars()
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect(),
        seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
    };
    maker.alternatives()
}

struct Maker {
    /// The remaining characters in reverse order.
    rest: Vec<char>,
    seed: u64,
}

impl Maker {
    fn choose(&mut self, count: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from(self.seed >> 33).unwrap() % count
    }

    fn alternatives(&mut self) -> String {
        let mut all = vec![self.sequence()];
        while self.rest.last() == Some(&'|') {
            self.rest.pop();
            all.push(self.sequence());
        }
        let index = self.choose(all.len());
        all.swap_remove(index)
    }

    fn sequence(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.pop() {
            if matches!(c, '|' | ')') {
                self.rest.push(c);
                break;
            }
            let atom = self.atom(c);
            for _ in 0..self.times() {
                text.push_str(&atom);
            }
        }
        text
    }

    fn atom(&mut self, c: char) -> String {
        match c {
            '(' => {
                let inner = self.alternatives();
                assert_eq!(self.rest.pop(), Some(')'));
                inner
            }
            '[' => self.class().to_string(),
            '.' => ["q", "0", "_", "x.y", "/"][self.choose(5)].to_owned(),
            '\\' => self.rest.pop().unwrap().to_string(),
            '^' | '$' => String::new(),
            c => c.to_string(),
        }
    }

    fn times(&mut self) -> usize {
        match self.rest.last() {
            Some('?') => {
                self.rest.pop();
                self.choose(2)
            }
            Some('*') => {
                self.rest.pop();
                self.choose(3)
            }
            Some('+') => {
                self.rest.pop();
                1 + self.choose(2)
            }
            Some('{') => {
                let digit = self.rest[self.rest.len() - 2];
                while self.rest.pop() != Some('}') {}
                usize::try_from(digit.to_digit(10).unwrap()).unwrap()
            }
            _ => 1,
        }
    }

    fn class(&mut self) -> char {
        let is_negated = self.rest.last() == Some(&'^');
        let mut members = Vec::new();
        while let Some(c) = self.rest.pop()
            && (c != ']' || members.is_empty())
        {
            members.push(c);
        }
        if is_negated {
            let mut free = "kK7.-~".chars().filter(|c| !members.contains(c));
            return free.next_back().unwrap();
        }
        let index = self.choose(members.len());
        match members[index] {
            '-' => members[0],
            c => c,
        }
    }
}
