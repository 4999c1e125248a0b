//! The flash memory and RAM that a model may use.

use onnxc::{byte_count, diag::Diagnostic};

/// The limits that are set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// The greatest size of the weights, in bytes.
    pub flash: Option<usize>,
    /// The greatest size of the arena, in bytes.
    pub ram: Option<usize>,
}

/// A limit, and what the model uses of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The kind of memory.
    pub memory: &'static str,
    /// The bytes that the model uses; `None` if they depend on free sizes.
    pub used: Option<usize>,
    /// The limit, in bytes.
    pub limit: usize,
    /// A sentence about the node or weight that uses the most.
    pub tightest: Option<String>,
}

impl Budget {
    /// Parses the limits.
    ///
    /// # Errors
    ///
    /// Returns an error if a text is not a number of bytes.
    pub fn parse(flash: Option<&str>, ram: Option<&str>) -> Result<Budget, Diagnostic> {
        let parse = |option: &str, text: Option<&str>| {
            text.map(|text| byte_count::parse(option, text)).transpose()
        };
        Ok(Budget { flash: parse("flash", flash)?, ram: parse("ram", ram)? })
    }
}

impl Use {
    /// Returns whether the model is known to fit.
    pub fn fits(&self) -> bool {
        self.used.is_some_and(|used| used <= self.limit)
    }
}
