//! Sets of element types, each written once: a constant and an arm of `dispatch!` follow from it.

use super::DType;

/// Defines a constant for each set, and `dispatch!` over all of them. `$d` is a dollar sign: the
/// inner macro needs its own.
macro_rules! sets {
    ($d:tt $($(#[$doc:meta])+ $set:ident: $($member:ident)+;)+) => {
        $($(#[$doc])+ pub const $set: &[DType] = &[$(DType::$member),+];)+

        /// Runs `$body` with `$T` bound to the Rust type of `$dtype`, a member of the named set.
        macro_rules! dispatch {
            $(($set $d dtype:expr, $d T:ident => $d body:expr) => {
                match $d dtype {
                    $(crate::dtype::DType::$member => {
                        #[allow(dead_code)]
                        type $d T = crate::array::element::$member;
                        $d body
                    })+
                    // A set of all types leaves none for this arm.
                    #[allow(unreachable_patterns)]
                    other => unreachable!("type inference admits no {other} to this kernel"),
                }
            };)+
        }
        pub(crate) use dispatch;
    };
}

sets! { $
    /// Every element type.
    ANY: F32 F64 F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1
        I2 I4 I8 I16 I32 I64 U2 U4 U8 U16 U32 U64 Bool String C64 C128;
    /// Every element type of IR version 4: no floats of 8 bits, and no sub-byte types.
    ANY_IR4: F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool String C64 C128;
    /// Types of real numbers: no strings, and no complex numbers.
    REALS: F32 F64 F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1
        I2 I4 I8 I16 I32 I64 U2 U4 U8 U16 U32 U64 Bool;
    /// Numeric types of IR version 4: no floats of 8 bits, and no sub-byte types.
    NUMERIC: F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64;
    /// [`NUMERIC`] and `bool`.
    NUMERIC_AND_BOOL: F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool;
    /// [`NUMERIC`] and the complex types.
    NUMERIC_AND_COMPLEX: F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 C64 C128;
    /// Types of reductions, matrix products and cumulative sums: no integers below 32 bits.
    ARITHMETIC: F32 F64 F16 BF16 I32 I64 U32 U64;

    /// Floating-point types of 16 to 64 bits.
    FLOATS: F32 F64 F16 BF16;
    /// Floating-point types of 32 and 64 bits.
    F32_AND_F64: F32 F64;
    /// Floating-point types of 16 bits.
    FLOAT16S: F16 BF16;
    /// Floating-point types of 8 bits.
    FLOAT8S: F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0;
    /// Integers of 8 to 64 bits.
    INTEGERS: I8 I16 I32 I64 U8 U16 U32 U64;
    /// Integers of 8 bits.
    INT8S: I8 U8;
    /// Types of indices.
    INDICES: I32 I64;

    /// `float` alone.
    F32_ONLY: F32;
    /// `double` alone.
    F64_ONLY: F64;
    /// `uint8` alone.
    U8_ONLY: U8;
    /// `int64` alone.
    I64_ONLY: I64;
    /// `bool` alone.
    BOOL_ONLY: Bool;
    /// `string` alone.
    STRING_ONLY: String;

    /// Types that `QuantizeLinear` makes.
    QUANTIZE_TYPES: I8 U8 I16 U16 I4 U4 I2 U2 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F4E2M1 F6E2M3
        F6E3M2;
    /// Types that `DequantizeLinear` reads.
    DEQUANTIZE_TYPES: I8 U8 I16 U16 I32 I4 U4 I2 U2 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F4E2M1
        F6E2M3 F6E3M2;
    /// Types of `ReduceMax` and `ReduceMin`.
    MIN_MAX_TYPES: F32 F64 F16 BF16 I8 I32 I64 U8 U32 U64 Bool;
    /// [`MIN_MAX_TYPES`] without `bool`.
    MIN_MAX_NUMERIC: F32 F64 F16 BF16 I8 I32 I64 U8 U32 U64;
    /// Types of the base of `Pow`.
    POW_TYPES: F32 F64 F16 BF16 I32 I64;
    /// Types of `Range`.
    RANGE_TYPES: F32 F64 F16 BF16 I16 I32 I64;
    /// Types of `MaxPool`.
    MAX_POOL_TYPES: F32 F64 F16 BF16 I8 U8;
    /// Types of `Dropout`.
    DROPOUT_TYPES: F32 F64 F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ;
    /// Types of features in the operators of classical machine learning.
    FEATURES: F32 F64 I32 I64;
    /// Types of `MurmurHash3`.
    HASHED: F32 F64 I32 I64 U32 U64 String;
    /// Types of keys and values in lookup tables, beside `string`.
    KEYS: F32 F64 I16 I32 I64;

    /// The types as which kernels move elements in this process: see [`DType::unsigned`].
    BITS: U8 U16 U32 U64 C128 String;
}
