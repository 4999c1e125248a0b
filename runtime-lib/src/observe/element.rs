//! The elements of a value of a run.

#[cfg(feature = "alloc")]
use crate::String;
use crate::{
    Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2,
    U4,
};
#[cfg(feature = "half")]
use crate::{bf16, f16};

/// An element type of values.
pub trait Element: Sized + 'static {
    /// Wraps elements.
    fn wrap(data: &[Self]) -> Elements<'_>;
    /// Returns the elements, if they are of this type.
    fn of(elements: Elements<'_>) -> Option<&[Self]>;
}

macro_rules! elements {
    ($($(#[$on:meta])* $Variant:ident $T:ty, $name:literal;)+) => {
        /// The elements of a value.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Elements<'a> {
            $(
                $(#[$on])*
                #[doc = concat!("`", $name, "`")]
                $Variant(&'a [$T]),
            )+
        }

        impl Elements<'_> {
            /// The type, as ONNX's textual syntax spells it.
            pub fn ty(&self) -> &'static str {
                match self { $($(#[$on])* Elements::$Variant(_) => $name,)+ }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $($(#[$on])* Elements::$Variant(data) => data.len(),)+ }
            }

            /// Returns whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        $(
            $(#[$on])*
            impl Element for $T {
                fn wrap(data: &[Self]) -> Elements<'_> {
                    Elements::$Variant(data)
                }

                fn of(elements: Elements<'_>) -> Option<&[Self]> {
                    match elements {
                        Elements::$Variant(data) => Some(data),
                        _ => None,
                    }
                }
            }
        )+
    };
}

elements! {
    F32 f32, "float";
    F64 f64, "double";
    #[cfg(feature = "half")]
    F16 f16, "float16";
    #[cfg(feature = "half")]
    BF16 bf16, "bfloat16";
    F8E4M3FN F8E4M3FN, "float8e4m3fn";
    F8E4M3FNUZ F8E4M3FNUZ, "float8e4m3fnuz";
    F8E5M2 F8E5M2, "float8e5m2";
    F8E5M2FNUZ F8E5M2FNUZ, "float8e5m2fnuz";
    F8E8M0 F8E8M0, "float8e8m0";
    F6E2M3 F6E2M3, "float6e2m3";
    F6E3M2 F6E3M2, "float6e3m2";
    F4E2M1 F4E2M1, "float4e2m1";
    I2 I2, "int2";
    I4 I4, "int4";
    I8 i8, "int8";
    I16 i16, "int16";
    I32 i32, "int32";
    I64 i64, "int64";
    U2 U2, "uint2";
    U4 U4, "uint4";
    U8 u8, "uint8";
    U16 u16, "uint16";
    U32 u32, "uint32";
    U64 u64, "uint64";
    Bool bool, "bool";
    #[cfg(feature = "alloc")]
    String String, "string";
    C64 Complex<f32>, "complex64";
    C128 Complex<f64>, "complex128";
}
