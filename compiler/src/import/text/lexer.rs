//! Splits ONNX's textual syntax into tokens.

use crate::diag::{Code, Diagnostic, Excerpt, Result, quoted};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'t> {
    /// A name: letters, digits and underscores, and no digit in front.
    Name(&'t str),
    /// Text in quotes, without the quotes and with escapes resolved.
    Quoted(String),
    /// An integer.
    Int(&'t str),
    /// A number with a point or an exponent, or one of `-inf` and `-nan`.
    Float(&'t str),
    /// Any other single character.
    Mark(char),
    /// `=>`
    Arrow,
    /// The end of the text.
    End,
}

/// A text that is split into tokens.
pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// A position in a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl<'t> Lexer<'t> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    /// Returns the next token and its position.
    pub fn next(&mut self) -> Result<(Token<'t>, Place)> {
        self.skip_blank();
        let start = self.at;
        let token = match self.peek() {
            None => Token::End,
            Some('"') => self.quoted()?,
            Some(c) if is_letter(c) => {
                self.skip_while(|c| is_letter(c) || c.is_ascii_digit());
                Token::Name(&self.text[start..self.at])
            }
            Some(c) if c.is_ascii_digit() || c == '-' => self.number()?,
            Some('=') if self.text[start..].starts_with("=>") => {
                self.at += "=>".len();
                Token::Arrow
            }
            Some(c) if "<>()[]{},:=@.?".contains(c) => {
                self.at += 1;
                Token::Mark(c)
            }
            Some(c) => {
                let message = format!("no token starts with {}", quoted(&c.to_string()));
                return Err(self.error(Place(start), message));
            }
        };
        Ok((token, Place(start)))
    }

    /// An error at a position of the text.
    pub fn error(&self, place: Place, message: impl Into<String>) -> Diagnostic {
        let before = &self.text[..place.0];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        let source = self.text[line_start..].lines().next().unwrap_or_default();
        let start = (place.0 - line_start).min(source.len());
        let rest = &source[start..];
        let length = rest.find(|c| !(is_letter(c) || c.is_ascii_digit())).unwrap_or(rest.len());
        Diagnostic::new(Code::BadSyntax, message)
            .within(format!("line {line}, column {column}"))
            .excerpt(|_| Excerpt::new(source, start..start + length))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    }

    /// Skips white space and comments, which extend to the end of the line.
    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|c| matches!(c, '\t'..='\r' | ' '));
            if self.peek() != Some('#') {
                return;
            }
            self.skip_while(|c| c != '\n');
        }
    }

    fn quoted(&mut self) -> Result<Token<'t>> {
        let start = Place(self.at);
        let mut value = String::new();
        let mut chars = self.text[self.at..].char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(Token::Quoted(value));
                }
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => value.push(c),
            }
        }
        Err(self.error(start, "the quotes are not closed"))
    }

    fn number(&mut self) -> Result<Token<'t>> {
        let start = self.at;
        if self.peek() == Some('-') {
            self.at += 1;
        }
        let digits = self.at;
        self.skip_while(|c| c.is_ascii_alphanumeric() || c == '.');
        // A sign after the letter of the exponent belongs to the number.
        let is_exponent = self.text[digits..self.at].ends_with(['e', 'E']);
        if is_exponent && self.text[self.at..].starts_with(['+', '-']) {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        let unsigned = &self.text[digits..self.at];
        if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Token::Int(text));
        }
        if text.parse::<f64>().is_ok() {
            return Ok(Token::Float(text));
        }
        Err(self.error(Place(start), format!("{} is not a number", quoted(text))))
    }
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next()?.0 {
                Token::End => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn a_text_is_split_into_words() {
        let text = "y_1=Op<a=-1.5e-3,b=[-7, 2.]># y\n(\"a \\\"b\\\\\")=>@c -inf";
        let expected = [
            Token::Name("y_1"),
            Token::Mark('='),
            Token::Name("Op"),
            Token::Mark('<'),
            Token::Name("a"),
            Token::Mark('='),
            Token::Float("-1.5e-3"),
            Token::Mark(','),
            Token::Name("b"),
            Token::Mark('='),
            Token::Mark('['),
            Token::Int("-7"),
            Token::Mark(','),
            Token::Float("2."),
            Token::Mark(']'),
            Token::Mark('>'),
            Token::Mark('('),
            Token::Quoted("a \"b\\".into()),
            Token::Mark(')'),
            Token::Arrow,
            Token::Mark('@'),
            Token::Name("c"),
            Token::Float("-inf"),
        ];
        assert_eq!(tokens(text).expect("the text has valid tokens only"), expected);
    }

    #[test]
    fn an_invalid_token_is_an_error_with_its_location() {
        for (text, place) in [
            ("a\n  ;", "line 2, column 3"),
            ("é", "line 1, column 1"),
            ("\"ü\" \"open", "line 1, column 5"),
            ("\"escaped\\", "line 1, column 1"),
            ("1.2.3", "line 1, column 1"),
            ("-", "line 1, column 1"),
            ("x -nano", "line 1, column 3"),
            ("1e", "line 1, column 1"),
        ] {
            let diagnostic = tokens(text).expect_err(text);
            assert_eq!((diagnostic.code, diagnostic.at), (Code::BadSyntax, vec![place.to_owned()]));
        }
    }
}
