//! Translation of RE2's pattern syntax, which ONNX uses, to the syntax of the `regex` crates. The
//! translation spells out everything that has another meaning there.

use std::{iter::Peekable, str::Chars};

/// RE2's limit on the count of a repetition.
const MAX_REPETITIONS: u32 = 1000;

/// Translates a pattern, or returns the error in it.
pub fn translate(pattern: &str) -> Result<String, String> {
    let mut reader = Reader { rest: pattern.chars().peekable(), text: String::new() };
    reader.pattern()?;
    Ok(reader.text)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    text: String,
}

/// An expression for one character.
enum Atom {
    Char(char),
    /// A set in the syntax of the `regex` crates, without the brackets around it.
    Set(String),
}

impl Reader<'_> {
    fn pattern(&mut self) -> Result<(), String> {
        let mut repeated = false;
        while let Some(c) = self.rest.next() {
            let repeats = match c {
                '*' | '+' | '?' => {
                    self.text.push(c);
                    true
                }
                '{' => self.repetition()?,
                _ => {
                    self.item(c)?;
                    false
                }
            };
            if repeats {
                if repeated {
                    return Err("a repetition is repeated".into());
                }
                // A question mark after a repetition sets its preference, which does not change a
                // full match.
                if self.rest.next_if_eq(&'?').is_some() {
                    self.text.push('?');
                }
            }
            repeated = repeats;
        }
        Ok(())
    }

    /// Reads a repetition if the brace starts one, and returns whether it does; else the brace is
    /// literal.
    fn repetition(&mut self) -> Result<bool, String> {
        let inside: String = self.rest.clone().take_while(|&c| c != '}').collect();
        let closed = self.rest.clone().nth(inside.chars().count()) == Some('}');
        let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if !closed || least.is_empty() || !digits(least) || !digits(most) {
            self.text.push_str(r"\{");
            return Ok(false);
        }
        let large = |text: &str| {
            !text.is_empty() && text.parse::<u32>().map_or(true, |n| n > MAX_REPETITIONS)
        };
        if large(least) || large(most) {
            return Err(format!("a repetition count of more than {MAX_REPETITIONS}"));
        }
        self.text.extend(['{'].into_iter().chain(inside.chars()).chain(['}']));
        self.rest.nth(inside.chars().count());
        Ok(true)
    }

    fn item(&mut self, c: char) -> Result<(), String> {
        match c {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.group(),
            '.' | '^' | '$' | '|' | ')' => {
                self.text.push(c);
                Ok(())
            }
            c => {
                self.char(c);
                Ok(())
            }
        }
    }

    /// Writes a literal character.
    fn char(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.text.push(c);
        } else {
            self.text.push_str(&hex(c));
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest.peek() {
            Some('Q') => {
                self.rest.next();
                self.quote();
                return Ok(());
            }
            // In RE2, word boundaries are those of ASCII, and `\C` matches a byte.
            Some('b') => self.text.push_str(r"(?-u:\b)"),
            Some('B') => self.text.push_str(r"(?-u:\B)"),
            Some('C') => self.text.push_str("(?s-u:.)"),
            Some('A') => self.text.push_str(r"\A"),
            Some('z') => self.text.push_str(r"\z"),
            _ => {
                match self.escaped_atom()? {
                    Atom::Char(c) => self.text.push_str(&hex(c)),
                    Atom::Set(set) => self.text.push_str(&format!("[{set}]")),
                }
                return Ok(());
            }
        }
        self.rest.next();
        Ok(())
    }

    /// Writes the characters up to `\E` as literals.
    fn quote(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.text.push_str(&hex(c));
        }
    }

    /// Reads the escape after a backslash, inside or outside of brackets.
    fn escaped_atom(&mut self) -> Result<Atom, String> {
        let c = self.rest.next().ok_or("a pattern ends with a backslash")?;
        let set = |text: &str| Ok(Atom::Set(text.into()));
        let control = match c {
            'd' => return set("0-9"),
            'D' => return set("[^0-9]"),
            'w' => return set("0-9A-Za-z_"),
            'W' => return set("[^0-9A-Za-z_]"),
            's' => return set(r"\t\n\f\r "),
            'S' => return set(r"[^\t\n\f\r ]"),
            'p' => return self.property(false),
            'P' => return self.property(true),
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.hexadecimal()?,
            '0'..='7' => self.octal(c)?,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c,
            c => return Err(format!("`\\{c}` is not an escape")),
        };
        Ok(Atom::Char(control))
    }

    fn hexadecimal(&mut self) -> Result<char, String> {
        let digits: String = if self.rest.next_if_eq(&'{').is_some() {
            self.rest.by_ref().take_while(|&c| c != '}').collect()
        } else {
            self.rest.by_ref().take(2).collect()
        };
        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
        code.ok_or_else(|| format!("`\\x{digits}` is not a character"))
    }

    /// Reads up to three octal digits. A single digit except 0 would be a backreference.
    fn octal(&mut self, first: char) -> Result<char, String> {
        let digit = |c: char| c.to_digit(8);
        let mut code = digit(first).unwrap_or(0);
        if first != '0' && self.rest.peek().is_none_or(|c| !c.is_digit(8)) {
            return Err(format!("`\\{first}` is a backreference"));
        }
        for _ in 0..2 {
            let Some(more) = self.rest.peek().copied().and_then(digit) else { break };
            code = 8 * code + more;
            self.rest.next();
        }
        char::from_u32(code).ok_or_else(|| "an octal escape is not a character".into())
    }

    /// Reads a Unicode property: one letter, or a name in braces.
    fn property(&mut self, negated: bool) -> Result<Atom, String> {
        let name: String = match self.rest.next() {
            Some('{') => self.rest.by_ref().take_while(|&c| c != '}').collect(),
            Some(c) => c.into(),
            None => return Err("a property without a name".into()),
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name.as_str(), negated),
        };
        let letter = if negated { 'P' } else { 'p' };
        Ok(Atom::Set(format!("\\{letter}{{{name}}}")))
    }

    /// Reads a bracketed set. Its characters are written as numbers, so none has a special meaning.
    fn class(&mut self) -> Result<(), String> {
        self.text.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.text.push('^');
        }
        let mut first = true;
        loop {
            let c = self.rest.next().ok_or("a set has no closing bracket")?;
            if c == ']' && !first {
                break;
            }
            first = false;
            match self.class_atom(c)? {
                Atom::Set(set) => self.text.push_str(&set),
                Atom::Char(low) => {
                    self.text.push_str(&hex(low));
                    let mut ahead = self.rest.clone();
                    if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                        self.range()?;
                    }
                }
            }
        }
        self.text.push(']');
        Ok(())
    }

    /// Reads the end of a range.
    fn range(&mut self) -> Result<(), String> {
        self.rest.next();
        let c = self.rest.next().ok_or("a set has no closing bracket")?;
        let high = if c == '\\' { self.escaped_atom()? } else { Atom::Char(c) };
        let Atom::Char(high) = high else { return Err("a range that ends in a set".into()) };
        self.text.push('-');
        self.text.push_str(&hex(high));
        Ok(())
    }

    fn class_atom(&mut self, c: char) -> Result<Atom, String> {
        if c == '\\' {
            return self.escaped_atom();
        }
        if c == '[' && self.rest.peek() == Some(&':') {
            let inside: String = self.rest.clone().skip(1).take_while(|&c| c != ':').collect();
            let mut behind = self.rest.clone().skip(1 + inside.chars().count());
            if behind.next() == Some(':') && behind.next() == Some(']') {
                self.rest.nth(inside.chars().count() + 2);
                return Ok(Atom::Set(format!("[:{inside}:]")));
            }
        }
        Ok(Atom::Char(c))
    }

    /// Reads the start of a group, after its parenthesis. All groups become non-capturing.
    fn group(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.text.push_str("(?:");
            return Ok(());
        }
        let mut ahead = self.rest.clone();
        let named = match (ahead.next(), ahead.next()) {
            (Some('P'), Some('<')) => 2,
            (Some('<'), Some(c)) if c != '=' && c != '!' => 1,
            _ => 0,
        };
        if named > 0 {
            self.rest.nth(named - 1);
            let name: String = self.rest.by_ref().take_while(|&c| c != '>').collect();
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_alphanumeric()) {
                return Err(format!("a group named `{name}`"));
            }
            self.text.push_str("(?:");
            return Ok(());
        }
        self.text.push_str("(?");
        for c in self.rest.by_ref() {
            match c {
                'i' | 'm' | 's' | 'U' | '-' => self.text.push(c),
                ':' | ')' => {
                    self.text.push(c);
                    return Ok(());
                }
                c => return Err(format!("a group of the kind `(?{c}`")),
            }
        }
        Err("a group has no closing parenthesis".into())
    }
}

/// Returns the escape of a character by its number.
fn hex(c: char) -> String {
    format!(r"\x{{{:x}}}", u32::from(c))
}
