//! Reads the words of a text in order, one of them ahead.

use super::lexer::{Lexer, Place, Word};
use crate::diag::{Code, Diagnostic, Result, quoted};

/// How deep graphs and types may lie inside each other: about what the binary format allows, of
/// which a graph in a graph takes three levels of a hundred.
const DEEPEST: usize = 32;

/// A text and the place up to which it is read.
pub struct Cursor<'t> {
    lexer: Lexer<'t>,
    word: Word<'t>,
    place: Place,
    depth: usize,
}

impl<'t> Cursor<'t> {
    /// The beginning of `text`.
    pub fn new(text: &'t str) -> Result<Cursor<'t>> {
        let mut lexer = Lexer::new(text);
        let (word, place) = lexer.next()?;
        Ok(Cursor { lexer, word, place, depth: 0 })
    }

    /// The word ahead.
    pub fn word(&self) -> &Word<'t> {
        &self.word
    }

    /// Where the word ahead starts.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Takes the word ahead.
    pub fn take(&mut self) -> Result<Word<'t>> {
        let (word, place) = self.lexer.next()?;
        self.place = place;
        Ok(std::mem::replace(&mut self.word, word))
    }

    /// Whether the word ahead is `mark`.
    pub fn at(&self, mark: char) -> bool {
        self.word == Word::Mark(mark)
    }

    /// Takes `mark`, where it is ahead.
    pub fn accept(&mut self, mark: char) -> Result<bool> {
        let here = self.at(mark);
        if here {
            self.take()?;
        }
        Ok(here)
    }

    /// Takes `mark`, which must be ahead.
    pub fn expect(&mut self, mark: char) -> Result {
        if self.accept(mark)? { Ok(()) } else { Err(self.wanted(&format!("`{mark}`"))) }
    }

    /// Takes `=>`, which must be ahead.
    pub fn expect_arrow(&mut self) -> Result {
        if self.word != Word::Arrow {
            return Err(self.wanted("`=>`"));
        }
        self.take().map(drop)
    }

    /// Takes a name, in quotes or not, where one is ahead.
    pub fn maybe_name(&mut self) -> Result<Option<String>> {
        let name = match &self.word {
            Word::Name(name) => (*name).to_owned(),
            Word::Quoted(name) => name.clone(),
            _ => return Ok(None),
        };
        self.take()?;
        Ok(Some(name))
    }

    /// Takes a name, in quotes or not; `what` it names stands in the diagnostic where there is none.
    pub fn name(&mut self, what: &str) -> Result<String> {
        match self.maybe_name()? {
            Some(name) => Ok(name),
            None => Err(self.wanted(what)),
        }
    }

    /// Takes text in quotes.
    pub fn quoted(&mut self) -> Result<String> {
        match &self.word {
            Word::Quoted(text) => {
                let text = text.clone();
                self.take()?;
                Ok(text)
            }
            _ => Err(self.wanted("text in quotes")),
        }
    }

    /// Takes a whole number.
    pub fn int<T: std::str::FromStr>(&mut self) -> Result<T> {
        let Word::Int(text) = self.word else { return Err(self.wanted("a whole number")) };
        let number = text.parse().map_err(|_| self.out_of_range(text))?;
        self.take()?;
        Ok(number)
    }

    /// Takes a number.
    pub fn float<T: std::str::FromStr + PartialEq + Into<f64> + Copy>(&mut self) -> Result<T> {
        let text = match self.word {
            Word::Int(text) | Word::Float(text) => text,
            Word::Name(text) if is_special(text) => text,
            _ => return Err(self.wanted("a number")),
        };
        let number: T = text.parse().map_err(|_| self.wanted("a number"))?;
        let letters = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
        if number.into().is_infinite() && !letters {
            return Err(self.out_of_range(text));
        }
        self.take()?;
        Ok(number)
    }

    /// Takes what `item` takes, with commas between, up to `close`.
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

    /// Does `then`, which may lead back here, but not without end.
    pub fn deeper<T>(&mut self, then: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            let diagnostic = self.error(format!("this lies more than {DEEPEST} deep"));
            return Err(Diagnostic { code: Code::TooDeep, ..diagnostic });
        }
        self.depth += 1;
        let result = then(self);
        self.depth -= 1;
        result
    }

    /// A diagnostic at the word ahead: it is not `what` it should be.
    pub fn wanted(&self, what: &str) -> Diagnostic {
        let found = match &self.word {
            Word::Name(text) | Word::Int(text) | Word::Float(text) => quoted(text),
            Word::Quoted(text) => format!("the text {}", quoted(text)),
            Word::Mark(mark) => format!("`{mark}`"),
            Word::Arrow => "`=>`".into(),
            Word::End => "the end of the text".into(),
        };
        self.error(format!("expected {what}, but found {found}"))
    }

    /// A diagnostic at the word ahead.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        self.error_at(self.place, message)
    }

    /// A diagnostic at a word that was taken.
    pub fn error_at(&self, place: Place, message: impl Into<String>) -> Diagnostic {
        self.lexer.error(place, message)
    }

    fn out_of_range(&self, text: &str) -> Diagnostic {
        self.error(format!("{} is out of range", quoted(text)))
    }
}

/// Whether a name stands for a number that digits cannot write.
pub fn is_special(name: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|special| name.eq_ignore_ascii_case(special))
}
