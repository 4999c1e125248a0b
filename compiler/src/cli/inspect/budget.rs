//! The flash memory and RAM that a model may use.

use crate::cli::options::bytes;

/// The limits that are set.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[group(skip)]
pub struct Budget {
    /// The flash memory for the weights (`256K`); the code comes on top
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true)]
    pub flash: Option<usize>,
    /// The RAM for the arena (`64K`)
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true)]
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

impl Use {
    /// Returns whether the model is known to fit.
    pub fn fits(&self) -> bool {
        self.used.is_some_and(|used| used <= self.limit)
    }
}
