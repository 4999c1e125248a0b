//! Element types of tensors, and the traits that kernels are generic over.

mod complex;
mod elem;
mod real;
mod small_float;
mod small_int;

pub use complex::Complex;
pub use elem::{Elem, Float, Integer, Number, Summand};
pub(crate) use real::sticky_f32;
pub use real::{Exact, Real};
pub use small_float::{
    F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, Float8,
};
pub use small_int::{I2, I4, U2, U4};
