//! Vectors of bytes for int8 products: four neighboring bytes are multiplied with four others and
//! accumulated at once. As in [`simd`](crate::simd), code must be inlined into the level's own
//! function.

#[cfg(x86_avx2)]
mod avx2;
mod channels;
mod limits;
mod multiplier;
#[cfg(not(x86_sse2))]
mod portable;
mod quad;
mod row;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(x86_sse2)]
mod sse2;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(x86_avx512)]
mod vbmi;
#[cfg(x86_avx512)]
mod vnni;

#[cfg(any(x86_avx2, all(target_arch = "wasm32", target_feature = "simd128")))]
use super::Level;
#[cfg(x86_avx512)]
use super::{Amx, Avx2};
use super::{Portable, Sealed, Simd, level};
use crate::Integer;
pub(crate) use channels::{CHANNELS, TAP_BYTES, Tap, Taps};
pub(crate) use limits::{Bounds, Factors, scale, scale_pixels, scale_rows};
pub(crate) use multiplier::{Multiplier, scaled};
pub(crate) use quad::{COLUMNS, Quad, Quads, add_products, dot, set, sums_memory, transpose};
pub(crate) use row::add_row_products;
#[cfg(x86_avx512)]
pub use vnni::Vnni;

/// The largest number of bytes of a vector at any level.
pub const MAX_BYTES: usize = 64;
/// The largest number of 32-bit accumulators of a vector at any level.
pub const MAX_SUMS: usize = MAX_BYTES / 4;

/// A vector: `LANES` accumulators of 32 bits, or four bytes for each of them.
pub type Vector<S> = <<S as Bytes>::Level as Simd>::I32;

/// Code on bytes that is written once for all levels.
pub trait WithBytes {
    /// Runs at the level `s`. Every implementation must be `#[inline(always)]`.
    fn run<S: Bytes>(self, s: S);
}

/// The range and the zero point of products that become bytes.
#[derive(Clone, Copy)]
pub struct Ends<S: Bytes> {
    /// The limits of the products, integers of at most eight bits and a sign.
    pub limits: [<S::Level as Simd>::F32; 2],
    /// The zero point, which is added after clamping.
    pub zero: Vector<S>,
}

/// The byte operations of one level. A value of the type is a token that proves that the processor
/// has the level.
pub trait Bytes: Sealed {
    /// The level's other operations.
    type Level: Simd;
    /// The number of accumulators of a vector.
    const LANES: usize;
    /// The number of rows of four vectors of accumulators that stay in registers.
    const ROWS: usize;
    /// Whether multiplying four bytes at a time in scalar registers is faster than in vectors.
    const IS_SCALAR: bool = false;
    /// Whether [`Bytes::dot`] is made of [`Bytes::add_pairs`], so that it pays to widen an operand
    /// once for several products.
    const PAIRS: bool = false;
    /// Whether the level implements [`Bytes::whole_products`].
    const ROUNDS: bool = false;
    /// Whether some processors of the level have tiles.
    #[cfg(x86_avx512)]
    const TILES: bool = false;

    /// Returns the token of the level's other operations.
    fn level(self) -> Self::Level;
    /// Runs `op` compiled for this level, on x86-64 in a function of its own.
    fn run<O: WithBytes>(self, op: O);

    /// Loads `4 · LANES` bytes from an address.
    ///
    /// # Safety
    ///
    /// `4 · LANES` bytes can be read from `from`.
    unsafe fn load_bytes_at(self, from: *const u8) -> Vector<Self>;
    /// Stores `4 · LANES` bytes at an address.
    ///
    /// # Safety
    ///
    /// `4 · LANES` bytes can be written to `to`.
    unsafe fn store_bytes_at(self, x: Vector<Self>, to: *mut u8);

    /// Adds to each lane of `sum` the products of its four bytes of `unsigned` (0 to 255) and
    /// `signed` (-128 to 127). Sums wrap around instead of saturating.
    #[inline(always)]
    fn dot(self, sum: Vector<Self>, unsigned: Vector<Self>, signed: Vector<Self>) -> Vector<Self> {
        let (a, b) = (self.widen_unsigned(unsigned), self.widen_signed(signed));
        self.add_pairs(self.add_pairs(sum, a[0], b[0]), a[1], b[1])
    }
    /// Widens the unsigned bytes of each lane to a pair of 16-bit numbers: those at even positions,
    /// and those at odd ones.
    fn widen_unsigned(self, bytes: Vector<Self>) -> [Vector<Self>; 2];
    /// Widens signed bytes as [`Bytes::widen_unsigned`] does unsigned ones.
    fn widen_signed(self, bytes: Vector<Self>) -> [Vector<Self>; 2];
    /// Adds to each lane of `sum` the products of two pairs of 16-bit numbers, wrapping.
    fn add_pairs(self, sum: Vector<Self>, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The larger of each two unsigned bytes.
    fn max_u8(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The smaller of each two unsigned bytes.
    fn min_u8(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// Bitwise XOR.
    fn xor(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The larger of the two.
    fn max_i32(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The smaller of the two.
    fn min_i32(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// `a · b / 2³²`, rounded down.
    fn mul_high(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// `a / 2^n`, rounded down, for `n` from 0 to 31.
    fn shr_each(self, a: Vector<Self>, n: Vector<Self>) -> Vector<Self>;
    /// Interleaves the bytes of four rows: a lane of the result has the four bytes of one column.
    /// The columns of the four results are in an order that [`Bytes::collect`] restores.
    fn interleave(self, rows: [Vector<Self>; 4]) -> [Vector<Self>; 4];
    /// Saturates the numbers of four vectors to bytes, in the order of columns before
    /// [`Bytes::interleave`].
    fn collect(self, columns: [Vector<Self>; 4]) -> Vector<Self>;
    /// Returns the lanes of four vectors in the order of columns before [`Bytes::interleave`]. With
    /// vectors of 128 bits they are in this order.
    #[inline(always)]
    fn in_order(self, columns: [Vector<Self>; 4]) -> [Vector<Self>; 4] {
        columns
    }
    /// Requantizes accumulators: multiplies each by its factor exactly, rounds to the nearest
    /// integer, ties to even, and adds the zero point. A result outside the bytes may be any number
    /// outside on the same side, or the next byte.
    ///
    /// Returns `None` if an accumulator has too many bits to be exact, which is not checked if the
    /// factors are `are_steady`, or if the level does not implement it ([`Bytes::ROUNDS`]).
    #[inline(always)]
    fn whole_products<const V: usize>(
        self,
        _sums: &[Vector<Self>; V],
        _factors: &[<Self::Level as Simd>::F32; V],
        _ends: Ends<Self>,
        _are_steady: bool,
    ) -> Option<[Vector<Self>; V]> {
        None
    }
    /// Saturates the numbers of four vectors to bytes, one vector after another.
    fn join(self, vectors: [Vector<Self>; 4]) -> Vector<Self>;
    /// Interleaves the first `LANES` bytes of four rows: a lane of the result has the four bytes of
    /// one column, in the order of columns.
    fn interleave_few(self, rows: [&[u8; MAX_SUMS]; 4]) -> Vector<Self>;
    /// Returns the low byte of each lane; bytes after the last lane are unspecified.
    fn low_bytes(self, x: Vector<Self>) -> [u8; MAX_SUMS];

    /// Loads a slice that may be shorter than a vector, filled with zeros.
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> Vector<Self> {
        if from.len() >= 4 * Self::LANES {
            // SAFETY: the slice has `4 · LANES` bytes.
            return unsafe { self.load_bytes_at(from.as_ptr()) };
        }
        let mut whole = [0; MAX_BYTES];
        whole[..from.len()].copy_from_slice(from);
        // SAFETY: the array has `MAX_BYTES` bytes, at least a vector.
        unsafe { self.load_bytes_at(whole.as_ptr()) }
    }

    /// Stores the first bytes, up to the length of the slice.
    #[inline(always)]
    fn store_bytes(self, x: Vector<Self>, to: &mut [u8]) {
        if to.len() >= 4 * Self::LANES {
            // SAFETY: the slice has `4 · LANES` bytes.
            return unsafe { self.store_bytes_at(x, to.as_mut_ptr()) };
        }
        let mut whole = [0; MAX_BYTES];
        // SAFETY: the array has `MAX_BYTES` bytes, at least a vector.
        unsafe { self.store_bytes_at(x, whole.as_mut_ptr()) };
        to.copy_from_slice(&whole[..to.len()]);
    }

    /// Loads a slice of numbers that may be shorter than a vector, filled with zeros.
    #[inline(always)]
    fn load_sums(self, from: &[i32]) -> Vector<Self> {
        if from.len() >= Self::LANES {
            // SAFETY: the slice has `LANES` numbers; the load may be unaligned.
            return unsafe { self.load_bytes_at(from.as_ptr().cast()) };
        }
        let mut whole = [0; MAX_SUMS];
        whole[..from.len()].copy_from_slice(from);
        // SAFETY: the array has `MAX_SUMS` numbers, at least a vector.
        unsafe { self.load_bytes_at(whole.as_ptr().cast()) }
    }

    /// Stores the first numbers, up to the length of the slice.
    #[inline(always)]
    fn store_sums(self, x: Vector<Self>, to: &mut [i32]) {
        if to.len() >= Self::LANES {
            // SAFETY: the slice has `LANES` numbers; the store may be unaligned.
            return unsafe { self.store_bytes_at(x, to.as_mut_ptr().cast()) };
        }
        let mut whole = [0; MAX_SUMS];
        // SAFETY: the array has `MAX_SUMS` numbers, at least a vector.
        unsafe { self.store_bytes_at(x, whole.as_mut_ptr().cast()) };
        to.copy_from_slice(&whole[..to.len()]);
    }
}

/// 1.5 · 2²³: near this number, consecutive `f32` are consecutive integers, also by their bits, so
/// adding it rounds.
const STEADY: f32 = 12_582_912.0;

/// Returns the number that was added to [`STEADY`], plus the zero point of a byte. A result outside
/// the bytes may become another number outside on the same side, or the next byte.
#[inline(always)]
fn steady_bits<S: Bytes>(s: S, sum: <S::Level as Simd>::F32, zero: Vector<S>) -> Vector<S> {
    let l = s.level();
    let none = l.sub_i32(l.bits(l.splat(STEADY)), zero);
    // Bits have the order of the numbers, except for negative ones, which are far below any byte.
    l.sub_i32(s.max_i32(l.bits(sum), none), none)
}

/// Rounds to the nearest integers, ties to even, and adds the zero point, with the limits of
/// [`steady_bits`].
#[inline(always)]
pub(crate) fn near_bytes<S: Bytes>(s: S, x: <S::Level as Simd>::F32, zero: Vector<S>) -> Vector<S> {
    let l = s.level();
    steady_bits(s, l.add(x, l.splat(STEADY)), zero)
}

/// Returns the largest absolute value of the accumulators, per lane.
#[cfg(x86_avx2)]
#[inline(always)]
fn largest<S: Bytes>(s: S, sums: &[Vector<S>]) -> <S::Level as Simd>::F32 {
    let l = s.level();
    let mut largest = l.splat(0.0);
    for &sum in sums {
        largest = l.max(largest, l.abs(l.to_f32(sum)));
    }
    largest
}

/// Computes [`Bytes::whole_products`] by adding [`STEADY`], if no accumulator has too many bits:
/// the fused multiply-add rounds once.
#[cfg(x86_avx2)]
#[inline(always)]
fn fused_products<S: Bytes, const V: usize>(
    s: S,
    sums: &[Vector<S>; V],
    factors: &[<S::Level as Simd>::F32; V],
    ends: Ends<S>,
) -> [Vector<S>; V] {
    let l = s.level();
    let steady = l.splat(STEADY);
    let mut whole = *sums;
    for (whole, &factor) in whole.iter_mut().zip(factors) {
        *whole = steady_bits(s, l.mul_add(l.to_f32(*whole), factor, steady), ends.zero);
    }
    whole
}

/// Returns whether clamped products with these factors are exact even for accumulators with more
/// bits than an `f32`: such accumulators have products beyond any limit.
pub(crate) fn are_steady(factors: &[f32]) -> bool {
    let is_steady = |factor: f32| (factor == 0.0) | (factor >= 512.0 / EXACT);
    // No early exit, so that the loop is vectorized.
    factors.iter().fold(true, |all, &factor| all & is_steady(factor))
}

/// 2²⁴: `f32` represents all integers below it.
const EXACT: f32 = 16_777_216.0;

/// Whether [`dispatch_bytes`] has vectors where [`dispatch`](super::dispatch) has them.
pub const HAS_BYTES: bool =
    cfg!(any(x86_avx2, all(target_arch = "wasm32", target_feature = "simd128")));

/// Runs `op` at the best level that the processor has for bytes, up to `level`.
#[inline(always)]
pub fn dispatch_bytes<O: WithBytes>(op: O) {
    match level() {
        #[cfg(x86_avx512)]
        Level::Avx512(s) | Level::Amx(Amx(s)) => match Vnni::of(s) {
            Some(s) => s.run(op),
            // SAFETY: processors with the AVX-512 level have AVX2 and FMA.
            None => Bytes::run(unsafe { Avx2::assume() }, op),
        },
        #[cfg(x86_avx2)]
        Level::Avx2(s) => Bytes::run(s, op),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128(s) => Bytes::run(s, op),
        // Any level without byte operations.
        #[allow(unreachable_patterns)]
        _ => Bytes::run(Portable, op),
    }
}

/// Sets each byte of `y` to the entry for the byte of `x`. The table starts with the entry for the
/// byte `first`, 0 or 128.
#[inline(always)]
pub(crate) fn look_up(x: &[u8], table: &[u8; 256], first: u8, y: &mut [u8]) {
    #[cfg(x86_avx512)]
    if let Level::Avx512(level) | Level::Amx(Amx(level)) = level()
        && let Some(vbmi) = vbmi::Vbmi::of(level)
    {
        return vbmi.look_up(x, table, first, y);
    }
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x ^ first)]);
}

/// Returns whether [`dispatch_bytes`] uses a level with [`Bytes::IS_SCALAR`].
#[inline(always)]
pub(crate) fn is_scalar() -> bool {
    struct Narrow<'a>(&'a mut bool);
    impl WithBytes for Narrow<'_> {
        #[inline(always)]
        fn run<S: Bytes>(self, _: S) {
            *self.0 = S::IS_SCALAR;
        }
    }
    let mut narrow = false;
    dispatch_bytes(Narrow(&mut narrow));
    narrow
}

/// A signed or unsigned byte.
pub trait Byte: Integer {
    /// The XOR mask that maps a byte's bits to those of an unsigned one, keeping the order: the
    /// sign bit.
    const FLIP: u8;

    /// Returns the bits.
    fn bits(bytes: &[Self]) -> &[u8];
    /// Returns the bits, mutably.
    fn bits_mut(bytes: &mut [Self]) -> &mut [u8];
}

impl Byte for u8 {
    const FLIP: u8 = 0;

    #[inline(always)]
    fn bits(bytes: &[u8]) -> &[u8] {
        bytes
    }

    #[inline(always)]
    fn bits_mut(bytes: &mut [u8]) -> &mut [u8] {
        bytes
    }
}

impl Byte for i8 {
    const FLIP: u8 = 0x80;

    #[inline(always)]
    fn bits(bytes: &[i8]) -> &[u8] {
        // SAFETY: both types are one byte, and all bit patterns of both are valid.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }

    #[inline(always)]
    fn bits_mut(bytes: &mut [i8]) -> &mut [u8] {
        // SAFETY: both types are one byte, and all bit patterns of both are valid.
        unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
    }
}
