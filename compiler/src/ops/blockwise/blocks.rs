//! The layout of block-quantized weights.

use crate::{
    diag::{Code, Diagnostic, Result},
    ir::{Attributes, Reader},
};

/// The kind of the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Unsigned integers with this number of bits.
    Integers(usize),
    /// The 4-bit floats of `bitsandbytes`.
    Fp4,
    /// The 4-bit normal floats of `bitsandbytes`.
    Nf4,
}

impl Codes {
    /// Returns the number of bits of a code.
    pub const fn bits(self) -> usize {
        match self {
            Codes::Integers(bits) => bits,
            Codes::Fp4 | Codes::Nf4 => 4,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Codes::Integers(_) => "integer",
            Codes::Fp4 => "fp4",
            Codes::Nf4 => "nf4",
        }
    }
}

/// The arithmetic of a product with block-quantized weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// The left operand keeps its type.
    Float,
    /// The left operand is quantized to 8 bits, with a scale for each block of a row.
    Int8,
}

impl Arithmetic {
    const fn name(self) -> &'static str {
        match self {
            Arithmetic::Float => "float",
            Arithmetic::Int8 => "int8",
        }
    }
}

/// A matrix of block-quantized weights: `n` columns of `k` codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The kind of the codes.
    pub codes: Codes,
    /// The number of columns.
    pub n: usize,
    /// The number of rows.
    pub k: usize,
    /// The number of consecutive rows that share a scale: a multiple of 16.
    pub block: usize,
    /// The arithmetic of a product with the weights.
    pub arithmetic: Arithmetic,
}

impl Blocks {
    pub(super) fn read(node: &mut Reader<'_>) -> Result<Blocks> {
        let bits = read_size(node, "bits")?;
        let kinds = [("integer", Codes::Integers(bits)), ("fp4", Codes::Fp4), ("nf4", Codes::Nf4)];
        let codes = node.choice("codes", &kinds)?;
        let [n, k] = [read_size(node, "N")?, read_size(node, "K")?];
        let block = read_size(node, "block_size")?;
        let kinds = [("float", Arithmetic::Float), ("int8", Arithmetic::Int8)];
        Ok(Blocks { codes, n, k, block, arithmetic: node.choice("arithmetic", &kinds)? })
    }

    pub(super) fn attributes(&self, a: &mut Attributes) {
        a.int("K", as_int(self.k));
        a.int("N", as_int(self.n));
        a.int("bits", as_int(self.codes.bits()));
        a.int("block_size", as_int(self.block));
        a.string("arithmetic", self.arithmetic.name());
        a.string("codes", self.codes.name());
    }

    /// Returns the number of blocks of a column.
    pub const fn per_column(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Returns the number of bytes of the codes. Blocks of integers are complete.
    pub const fn bytes(&self) -> usize {
        match self.codes {
            Codes::Integers(bits) => self.n * self.per_column() * self.block * bits / 8,
            Codes::Fp4 | Codes::Nf4 => (self.n * self.k).div_ceil(2),
        }
    }

    /// Returns the number of scales. A block of `bitsandbytes` may span columns.
    pub const fn scales(&self) -> usize {
        match self.codes {
            Codes::Integers(_) => self.n * self.per_column(),
            Codes::Fp4 | Codes::Nf4 => (self.n * self.k).div_ceil(self.block),
        }
    }

    /// Returns the number of bytes of the zero points as codes: each column starts with a byte.
    pub const fn zero_bytes(&self) -> usize {
        self.n * (self.per_column() * self.codes.bits()).div_ceil(8)
    }
}

pub(super) fn as_int(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The largest number of rows, columns or elements of a block. Products of these do not overflow.
const MOST: usize = 1 << 27;

/// Reads a size from 1 to [`MOST`].
pub(in crate::ops) fn read_size(node: &mut Reader<'_>, name: &str) -> Result<usize> {
    let value = node.required_int(name)?;
    match usize::try_from(value) {
        Ok(size @ 1..=MOST) => Ok(size),
        Ok(1..) => {
            let message = format!("`{name}` is {value}, but must be at most {MOST}");
            Err(Diagnostic::new(Code::TooLarge, message))
        }
        Ok(0) | Err(_) => {
            let message = format!("`{name}` is {value}, but must be positive");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}
