//! Vectors of bytes, as products of quantized matrices want them: four neighboring bytes are
//! multiplied with four others and summed up at once. It is written as the rest of this folder
//! is; the trap is the same, too.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod channels;
mod limits;
mod multiplier;
mod portable;
mod quad;
mod row;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
use super::Level;
#[cfg(target_arch = "x86_64")]
use super::{Amx, Avx2};
use super::{Portable, Sealed, Simd, level};
use crate::Integer;
pub(crate) use channels::{CHANNELS, TAP_BYTES, Tap, Taps};
pub(crate) use limits::{Bounds, Factors, scale, scale_pixels, scale_rows};
pub(crate) use multiplier::{Multiplier, scaled};
pub(crate) use quad::{COLUMNS, Quad, Quads, add_products, dot, iteration, set, sums_memory};
pub(crate) use row::add_row_products;
#[cfg(target_arch = "x86_64")]
pub use vnni::Vnni;

/// The most bytes that a vector holds at any level.
pub const MAX_BYTES: usize = 64;
/// The most sums that a vector holds at any level.
pub const MAX_SUMS: usize = MAX_BYTES / 4;

/// A vector: of `LANES` sums of 32 bits, or of four bytes for each.
pub type Vector<S> = <<S as Bytes>::Level as Simd>::I32;

/// Work on bytes that is written once for all levels.
pub trait WithBytes {
    /// Does the work at the level `s`. Every implementation must be `#[inline(always)]`.
    fn run<S: Bytes>(self, s: S);
}

/// Where products end that become bytes.
#[derive(Clone, Copy)]
pub struct Ends<S: Bytes> {
    /// The limits at which they are capped, whole numbers of at most eight bits and a sign.
    pub limits: [<S::Level as Simd>::F32; 2],
    /// What is added to them then.
    pub zero: Vector<S>,
}

/// What a level can do with bytes. To hold a value of the type is the proof that the processor has
/// the level.
pub trait Bytes: Sealed {
    /// The level's other operations.
    type Level: Simd;
    /// How many sums a vector has.
    const LANES: usize;
    /// How many rows of four vectors of sums stay in registers.
    const ROWS: usize;
    /// Whether four bytes at a time are multiplied better than vectors of them.
    const IS_SCALAR: bool = false;
    /// Whether [`Bytes::whole_products`] are there.
    const ROUNDS: bool = false;
    /// Whether some processors of the level have tiles.
    #[cfg(target_arch = "x86_64")]
    const TILES: bool = false;

    /// The level's other operations.
    fn level(self) -> Self::Level;
    /// Runs `op` compiled for this level.
    fn run<O: WithBytes>(self, op: O);

    /// `4 · LANES` bytes from an address.
    ///
    /// # Safety
    /// The bytes at the address can be read.
    unsafe fn load_bytes_at(self, from: *const u8) -> Vector<Self>;
    /// Writes `4 · LANES` bytes at an address.
    ///
    /// # Safety
    /// The bytes at the address can be written.
    unsafe fn store_bytes_at(self, x: Vector<Self>, to: *mut u8);

    /// To each lane of `sum`, the sum of the products of its four bytes: those of `unsigned` from 0
    /// to 255, those of `signed` from -128 to 127. No sum saturates; they wrap around.
    fn dot(self, sum: Vector<Self>, unsigned: Vector<Self>, signed: Vector<Self>) -> Vector<Self>;
    /// The larger one of each two bytes, which have no sign.
    fn max_u8(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The smaller one of each two bytes, which have no sign.
    fn min_u8(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// Every bit that is set in one of the two.
    fn xor(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The larger of the two.
    fn max_i32(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// The smaller of the two.
    fn min_i32(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// `a · b / 2³²`, rounded down.
    fn mul_high(self, a: Vector<Self>, b: Vector<Self>) -> Vector<Self>;
    /// `a / 2^n`, rounded down, for `n` from 0 to 31.
    fn shr_each(self, a: Vector<Self>, n: Vector<Self>) -> Vector<Self>;
    /// The bytes of four rows, of which four that stand below each other get into a lane. The
    /// columns of the four results are in an order that [`Bytes::collect`] undoes.
    fn interleave(self, rows: [Vector<Self>; 4]) -> [Vector<Self>; 4];
    /// The numbers of four vectors as bytes, capped at 0 and 255, in the order from which
    /// [`Bytes::interleave`] came.
    fn collect(self, columns: [Vector<Self>; 4]) -> Vector<Self>;
    /// Each sum times its factor: the exact product, rounded to the nearest whole number, halves to
    /// the even one, and with a zero point added; what is no byte then may become any number that is none,
    /// on the same side, or the next byte. Nothing where a sum has too many bits for that,
    /// which is not looked at where factors are `are_steady`; nothing where the level has no
    /// way to do so ([`Bytes::ROUNDS`]), either.
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
    /// The numbers of four vectors as bytes, capped at 0 and 255, one vector's after the other's.
    fn join(self, vectors: [Vector<Self>; 4]) -> Vector<Self>;
    /// The first `LANES` bytes of four rows, of which four that stand below each other get into a
    /// lane; lanes are in the order of the columns.
    fn interleave_few(self, rows: [&[u8; MAX_SUMS]; 4]) -> Vector<Self>;
    /// The low byte of each lane; what follows them is undefined.
    fn low_bytes(self, x: Vector<Self>) -> [u8; MAX_SUMS];

    /// The bytes of a slice; zeros follow where it is shorter than a vector.
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> Vector<Self> {
        if from.len() >= 4 * Self::LANES {
            // SAFETY: the slice is as long as a vector.
            return unsafe { self.load_bytes_at(from.as_ptr()) };
        }
        let mut whole = [0; MAX_BYTES];
        whole[..from.len()].copy_from_slice(from);
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.load_bytes_at(whole.as_ptr()) }
    }

    /// Writes as many bytes as the slice has room for.
    #[inline(always)]
    fn store_bytes(self, x: Vector<Self>, to: &mut [u8]) {
        if to.len() >= 4 * Self::LANES {
            // SAFETY: the slice is as long as a vector.
            return unsafe { self.store_bytes_at(x, to.as_mut_ptr()) };
        }
        let mut whole = [0; MAX_BYTES];
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.store_bytes_at(x, whole.as_mut_ptr()) };
        to.copy_from_slice(&whole[..to.len()]);
    }

    /// Numbers of a slice; zeros follow where it is shorter than a vector.
    #[inline(always)]
    fn load_sums(self, from: &[i32]) -> Vector<Self> {
        if from.len() >= Self::LANES {
            // SAFETY: the slice is as long as a vector; any address will do.
            return unsafe { self.load_bytes_at(from.as_ptr().cast()) };
        }
        let mut whole = [0; MAX_SUMS];
        whole[..from.len()].copy_from_slice(from);
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.load_bytes_at(whole.as_ptr().cast()) }
    }

    /// Writes as many numbers as the slice has room for.
    #[inline(always)]
    fn store_sums(self, x: Vector<Self>, to: &mut [i32]) {
        let mut whole = [0; MAX_SUMS];
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.store_bytes_at(x, whole.as_mut_ptr().cast()) };
        let n = to.len().min(Self::LANES);
        to[..n].copy_from_slice(&whole[..n]);
    }
}

/// Next to this number, the nearest numbers of 32 bits are whole ones, and their last bits count these: a
/// sum with it is rounded.
const STEADY: f32 = 12_582_912.0;

/// The number that was added to [`STEADY`], and a zero point of a byte; what is no byte then may become
/// another number that is none, on the same side, or the next byte.
#[inline(always)]
fn steady_bits<S: Bytes>(s: S, sum: <S::Level as Simd>::F32, zero: Vector<S>) -> Vector<S> {
    let l = s.level();
    let none = l.sub_i32(l.bits(l.splat(STEADY)), zero);
    // Bits are in the order of the numbers, unless these are negative: far below any byte.
    l.sub_i32(s.max_i32(l.bits(sum), none), none)
}

/// Numbers rounded to whole ones, halves to even ones, likewise.
#[inline(always)]
pub(crate) fn near_bytes<S: Bytes>(s: S, x: <S::Level as Simd>::F32, zero: Vector<S>) -> Vector<S> {
    let l = s.level();
    steady_bits(s, l.add(x, l.splat(STEADY)), zero)
}

/// The largest of all sums, without their signs.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn largest<S: Bytes>(s: S, sums: &[Vector<S>]) -> <S::Level as Simd>::F32 {
    let l = s.level();
    let mut largest = l.splat(0.0);
    for &sum in sums {
        largest = l.max(largest, l.abs(l.to_f32(sum)));
    }
    largest
}

/// [`Bytes::whole_products`] by way of [`STEADY`], where no sum has too many bits: a product and a sum are
/// rounded once, together.
#[cfg(target_arch = "x86_64")]
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

/// Whether products with such factors are the exact ones, capped, even where sums have more bits than a
/// number: those have products that are beyond any limit.
pub(crate) fn are_steady(factors: &[f32]) -> bool {
    let is_steady = |factor: f32| (factor == 0.0) | (factor >= 512.0 / EXACT);
    // Without a way out of the loop it is one of vectors.
    factors.iter().fold(true, |all, &factor| all & is_steady(factor))
}

/// Sums below it have no more bits than a number has.
const EXACT: f32 = 16_777_216.0;

/// Runs `op` at the best level that the processor has for bytes, as [`level`] allows.
#[inline(always)]
pub fn dispatch_bytes<O: WithBytes>(op: O) {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(s) | Level::Amx(Amx(s)) => match Vnni::of(s) {
            Some(s) => s.run(op),
            // SAFETY: a processor with AVX-512 as the level has it has AVX2 and FMA.
            None => Bytes::run(unsafe { Avx2::assume() }, op),
        },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(s) => Bytes::run(s, op),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128(s) => Bytes::run(s, op),
        // Any level that has no way of its own.
        #[allow(unreachable_patterns)]
        _ => Bytes::run(Portable, op),
    }
}

/// Whether [`dispatch_bytes`] goes to a level that is [`Bytes::IS_SCALAR`].
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

/// A byte with or without a sign.
pub trait Byte: Integer {
    /// What makes of a byte's bits those of an unsigned one, in the same order: the sign flipped.
    const FLIP: u8;

    /// The bits.
    fn bits(bytes: &[Self]) -> &[u8];
    /// The bits, to be written.
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
        // SAFETY: both types are one byte, of which all bits are allowed.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }

    #[inline(always)]
    fn bits_mut(bytes: &mut [i8]) -> &mut [u8] {
        // SAFETY: both types are one byte, of which all bits are allowed.
        unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
    }
}
