//! The element types of ONNX.

mod sets;

pub use sets::*;
use std::fmt;

/// An element type. In memory, an element of a sub-byte type takes one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum DType {
    F32,
    F64,
    F16,
    BF16,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    F6E2M3,
    F6E3M2,
    F4E2M1,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    Bool,
    String,
    C64,
    C128,
}

use DType::*;

/// One row of [`TABLE`]: the names and sizes of a type.
struct Row {
    dtype: DType,
    /// The number in the file format.
    code: i32,
    /// The name in ONNX's textual syntax.
    onnx: &'static str,
    /// The Rust type, as generated code spells it.
    rust: &'static str,
    /// The size of an element in memory, in bytes.
    bytes: usize,
    /// The size of an element in raw data of the file format, in bits.
    bits: usize,
}

const fn row(
    dtype: DType,
    code: i32,
    onnx: &'static str,
    rust: &'static str,
    bytes: usize,
    bits: usize,
) -> Row {
    Row { dtype, code, onnx, rust, bytes, bits }
}

/// Every type, in the order of [`DType`].
const TABLE: &[Row] = &[
    row(F32, 1, "float", "f32", 4, 32),
    row(F64, 11, "double", "f64", 8, 64),
    row(F16, 10, "float16", "::onnxc_runtime::f16", 2, 16),
    row(BF16, 16, "bfloat16", "::onnxc_runtime::bf16", 2, 16),
    row(F8E4M3FN, 17, "float8e4m3fn", "::onnxc_runtime::F8E4M3FN", 1, 8),
    row(F8E4M3FNUZ, 18, "float8e4m3fnuz", "::onnxc_runtime::F8E4M3FNUZ", 1, 8),
    row(F8E5M2, 19, "float8e5m2", "::onnxc_runtime::F8E5M2", 1, 8),
    row(F8E5M2FNUZ, 20, "float8e5m2fnuz", "::onnxc_runtime::F8E5M2FNUZ", 1, 8),
    row(F8E8M0, 24, "float8e8m0", "::onnxc_runtime::F8E8M0", 1, 8),
    row(F6E2M3, 27, "float6e2m3", "::onnxc_runtime::F6E2M3", 1, 6),
    row(F6E3M2, 28, "float6e3m2", "::onnxc_runtime::F6E3M2", 1, 6),
    row(F4E2M1, 23, "float4e2m1", "::onnxc_runtime::F4E2M1", 1, 4),
    row(I2, 26, "int2", "::onnxc_runtime::I2", 1, 2),
    row(I4, 22, "int4", "::onnxc_runtime::I4", 1, 4),
    row(I8, 3, "int8", "i8", 1, 8),
    row(I16, 5, "int16", "i16", 2, 16),
    row(I32, 6, "int32", "i32", 4, 32),
    row(I64, 7, "int64", "i64", 8, 64),
    row(U2, 25, "uint2", "::onnxc_runtime::U2", 1, 2),
    row(U4, 21, "uint4", "::onnxc_runtime::U4", 1, 4),
    row(U8, 2, "uint8", "u8", 1, 8),
    row(U16, 4, "uint16", "u16", 2, 16),
    row(U32, 12, "uint32", "u32", 4, 32),
    row(U64, 13, "uint64", "u64", 8, 64),
    row(Bool, 9, "bool", "bool", 1, 8),
    row(String, 8, "string", "::onnxc_runtime::String", 24, 0),
    row(C64, 14, "complex64", "::onnxc_runtime::Complex<f32>", 8, 64),
    row(C128, 15, "complex128", "::onnxc_runtime::Complex<f64>", 16, 128),
];

impl DType {
    /// Returns the type with this number in the file format; `None` for `UNDEFINED` and unknown
    /// numbers.
    pub fn from_code(code: i32) -> Option<DType> {
        TABLE.iter().find(|row| row.code == code).map(|row| row.dtype)
    }

    /// Returns the type with this name in ONNX's textual syntax.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.onnx == name).map(|row| row.dtype)
    }

    /// Returns the number of the type in the file format.
    pub fn code(self) -> i32 {
        self.row().code
    }

    /// Returns the Rust type, as generated code spells it.
    pub fn rust(self) -> &'static str {
        self.row().rust
    }

    /// Returns the size of an element in memory, in bytes.
    pub fn bytes(self) -> usize {
        self.row().bytes
    }

    /// Returns the size of an element in raw data, in bits; 0 for strings, which have no raw data.
    pub fn bits(self) -> usize {
        self.row().bits
    }

    /// Returns the unsigned integer that has the size of an element in memory; the type itself for
    /// strings and complex numbers of 16 bytes.
    pub fn unsigned(self) -> DType {
        match self.bytes() {
            _ if self == String => self,
            1 => U8,
            2 => U16,
            4 => U32,
            8 => U64,
            _ => self,
        }
    }

    /// Returns the least and the greatest value of an integer type or `bool`, limited to `i64`.
    pub fn range(self) -> Option<(i64, i64)> {
        Some(match self {
            I2 => (-2, 1),
            I4 => (-8, 7),
            I8 => (i8::MIN.into(), i8::MAX.into()),
            I16 => (i16::MIN.into(), i16::MAX.into()),
            I32 => (i32::MIN.into(), i32::MAX.into()),
            I64 => (i64::MIN, i64::MAX),
            U2 => (0, 3),
            U4 => (0, 15),
            U8 => (0, u8::MAX.into()),
            U16 => (0, u16::MAX.into()),
            U32 => (0, u32::MAX.into()),
            U64 => (0, i64::MAX),
            Bool => (0, 1),
            F32 | F64 | F16 | BF16 | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0
            | F6E2M3 | F6E3M2 | F4E2M1 | String | C64 | C128 => return None,
        })
    }

    /// Returns whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        self <= F4E2M1
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

/// The name in ONNX's textual syntax.
impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().onnx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_types() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype as usize, i, "{}", row.onnx);
            assert_eq!(DType::from_code(row.code), Some(row.dtype));
            assert_eq!(DType::from_name(row.onnx), Some(row.dtype));
        }
    }
}
