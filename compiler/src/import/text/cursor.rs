//! Reads the tokens of a text in order, with a lookahead of one.

use super::lexer::{Lexer, Place, Token};
use crate::diag::{Code, Diagnostic, Result, quoted};

/// The greatest depth of nested graphs and types. It is close to that of the binary format, whose
/// limit is 100 messages, and where a nested graph takes three.
const MAX_DEPTH: usize = 32;

/// A text, and the position up to which it was read.
pub struct Cursor<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    place: Place,
    depth: usize,
}

impl<'t> Cursor<'t> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'t str) -> Result<Cursor<'t>> {
        let mut lexer = Lexer::new(text);
        let (token, place) = lexer.next()?;
        Ok(Cursor { lexer, token, place, depth: 0 })
    }

    /// The next token.
    pub fn token(&self) -> &Token<'t> {
        &self.token
    }

    /// The position of the next token.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Consumes the next token.
    pub fn take(&mut self) -> Result<Token<'t>> {
        let (token, place) = self.lexer.next()?;
        self.place = place;
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// Returns whether the next token is `mark`.
    pub fn at(&self, mark: char) -> bool {
        self.token == Token::Mark(mark)
    }

    /// Consumes `mark` if it is next.
    pub fn accept(&mut self, mark: char) -> Result<bool> {
        let here = self.at(mark);
        if here {
            self.take()?;
        }
        Ok(here)
    }

    /// Consumes `mark`, or returns an error.
    pub fn expect(&mut self, mark: char) -> Result {
        if self.accept(mark)? { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    /// Consumes `=>`, or returns an error.
    pub fn expect_arrow(&mut self) -> Result {
        if self.token != Token::Arrow {
            return Err(self.expected("`=>`"));
        }
        self.take().map(drop)
    }

    /// Consumes a name, with or without quotes, if one is next.
    pub fn maybe_name(&mut self) -> Result<Option<String>> {
        let name = match &self.token {
            Token::Name(name) => (*name).to_owned(),
            Token::Quoted(name) => name.clone(),
            _ => return Ok(None),
        };
        self.take()?;
        Ok(Some(name))
    }

    /// Consumes a name, with or without quotes. The error says that `what` was expected.
    pub fn name(&mut self, what: &str) -> Result<String> {
        match self.maybe_name()? {
            Some(name) => Ok(name),
            None => Err(self.expected(what)),
        }
    }

    /// Consumes text in quotes.
    pub fn quoted(&mut self) -> Result<String> {
        match &self.token {
            Token::Quoted(text) => {
                let text = text.clone();
                self.take()?;
                Ok(text)
            }
            _ => Err(self.expected("text in quotes")),
        }
    }

    /// Consumes an integer.
    pub fn int<T: std::str::FromStr>(&mut self) -> Result<T> {
        let Token::Int(text) = self.token else { return Err(self.expected("a whole number")) };
        let number = text.parse().map_err(|_| self.out_of_range(text))?;
        self.take()?;
        Ok(number)
    }

    /// Consumes a number.
    pub fn float<T: std::str::FromStr + PartialEq + Into<f64> + Copy>(&mut self) -> Result<T> {
        let text = match self.token {
            Token::Int(text) | Token::Float(text) => text,
            Token::Name(text) if is_special(text) => text,
            _ => return Err(self.expected("a number")),
        };
        let number: T = text.parse().map_err(|_| self.expected("a number"))?;
        let letters = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
        if number.into().is_infinite() && !letters {
            return Err(self.out_of_range(text));
        }
        self.take()?;
        Ok(number)
    }

    /// Parses items separated by commas, up to `close`.
    pub fn list<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.accept(close)? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.accept(',')? {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Calls `then` one level deeper, which may recurse up to the limit.
    pub fn with_depth<T>(&mut self, then: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            let diagnostic = self.error(format!("this lies more than {MAX_DEPTH} deep"));
            return Err(Diagnostic { code: Code::TooDeep, ..diagnostic });
        }
        self.depth += 1;
        let result = then(self);
        self.depth -= 1;
        result
    }

    /// The error that the next token is not `what`.
    pub fn expected(&self, what: &str) -> Diagnostic {
        let found = match &self.token {
            Token::Name(text) | Token::Int(text) | Token::Float(text) => quoted(text),
            Token::Quoted(text) => format!("the text {}", quoted(text)),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::Arrow => "`=>`".into(),
            Token::End => "the end of the text".into(),
        };
        self.error(format!("expected {what}, but found {found}"))
    }

    /// An error at the next token.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        self.error_at(self.place, message)
    }

    /// An error at an earlier token.
    pub fn error_at(&self, place: Place, message: impl Into<String>) -> Diagnostic {
        self.lexer.error(place, message)
    }

    fn out_of_range(&self, text: &str) -> Diagnostic {
        self.error(format!("{} is out of range", quoted(text)))
    }
}

/// Returns whether a name is a number that cannot be written in digits.
pub fn is_special(name: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|special| name.eq_ignore_ascii_case(special))
}
