//! Bytes without processor-specific instructions.

use super::{Bytes, MAX_SUMS, WithBytes};
use crate::simd::{HAS_VECTORS, Portable};

const N: usize = 4;
type I32 = [i32; N];

/// Applies `f` to each pair of bytes.
#[inline(always)]
fn each_byte(a: I32, b: I32, f: impl Fn(u8, u8) -> u8) -> I32 {
    core::array::from_fn(|i| {
        let (a, b) = (a[i].to_ne_bytes(), b[i].to_ne_bytes());
        i32::from_ne_bytes(core::array::from_fn(|j| f(a[j], b[j])))
    })
}

/// Returns two 16-bit numbers as a pair.
#[inline(always)]
fn pair(low: i32, high: i32) -> i32 {
    low & 0xffff | high << 16
}

impl Bytes for Portable {
    type Level = Portable;
    const LANES: usize = N;
    const ROWS: usize = 1;
    // On other targets with vectors, rustc vectorizes the arrays.
    const IS_SCALAR: bool = !HAS_VECTORS || cfg!(target_arch = "x86_64");

    #[inline(always)]
    fn level(self) -> Portable {
        self
    }

    #[inline(always)]
    fn run<O: WithBytes>(self, op: O) {
        op.run(self);
    }

    #[inline(always)]
    unsafe fn load_bytes_at(self, from: *const u8) -> I32 {
        // SAFETY: the caller guarantees the bytes; the read is unaligned.
        unsafe { from.cast::<I32>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_bytes_at(self, x: I32, to: *mut u8) {
        // SAFETY: the caller guarantees the bytes; the write is unaligned.
        unsafe { to.cast::<I32>().write_unaligned(x) }
    }

    #[inline(always)]
    fn dot(self, sum: I32, unsigned: I32, signed: I32) -> I32 {
        let mut sums = sum;
        for (i, sum) in sums.iter_mut().enumerate() {
            let (a, b) = (unsigned[i].to_ne_bytes(), signed[i].to_ne_bytes());
            for (a, b) in a.into_iter().zip(b) {
                *sum = sum.wrapping_add(i32::from(a) * i32::from(b as i8));
            }
        }
        sums
    }

    #[inline(always)]
    fn widen_unsigned(self, bytes: I32) -> [I32; 2] {
        [bytes.map(|x| x & 0x00ff_00ff), bytes.map(|x| x >> 8 & 0x00ff_00ff)]
    }

    #[inline(always)]
    fn widen_signed(self, bytes: I32) -> [I32; 2] {
        [
            bytes.map(|x| pair(x << 24 >> 24, x << 8 >> 24)),
            bytes.map(|x| pair(x << 16 >> 24, x >> 24)),
        ]
    }

    #[inline(always)]
    fn add_pairs(self, sum: I32, a: I32, b: I32) -> I32 {
        core::array::from_fn(|i| {
            let [low, high] = [16, 0].map(|shift| (a[i] << shift >> 16) * (b[i] << shift >> 16));
            sum[i].wrapping_add(low).wrapping_add(high)
        })
    }

    #[inline(always)]
    fn xor(self, a: I32, b: I32) -> I32 {
        core::array::from_fn(|i| a[i] ^ b[i])
    }

    #[inline(always)]
    fn max_u8(self, a: I32, b: I32) -> I32 {
        each_byte(a, b, u8::max)
    }

    #[inline(always)]
    fn min_u8(self, a: I32, b: I32) -> I32 {
        each_byte(a, b, u8::min)
    }

    #[inline(always)]
    fn max_i32(self, a: I32, b: I32) -> I32 {
        core::array::from_fn(|i| a[i].max(b[i]))
    }

    #[inline(always)]
    fn min_i32(self, a: I32, b: I32) -> I32 {
        core::array::from_fn(|i| a[i].min(b[i]))
    }

    #[inline(always)]
    fn mul_high(self, a: I32, b: I32) -> I32 {
        core::array::from_fn(|i| ((i64::from(a[i]) * i64::from(b[i])) >> 32) as i32)
    }

    #[inline(always)]
    fn shr_each(self, a: I32, n: I32) -> I32 {
        core::array::from_fn(|i| a[i].wrapping_shr(n[i] as u32))
    }

    #[inline(always)]
    fn interleave(self, rows: [I32; 4]) -> [I32; 4] {
        let mut columns = [[0; N]; 4];
        for (i, column) in columns.iter_mut().enumerate() {
            let [a, b, c, d] = rows.map(|row| row[i].to_ne_bytes());
            for (j, to) in column.iter_mut().enumerate() {
                *to = i32::from_ne_bytes([a[j], b[j], c[j], d[j]]);
            }
        }
        columns
    }

    #[inline(always)]
    fn collect(self, columns: [I32; 4]) -> I32 {
        columns.map(|column| i32::from_ne_bytes(column.map(|x| x.clamp(0, 255) as u8)))
    }

    #[inline(always)]
    fn join(self, vectors: [I32; 4]) -> I32 {
        self.collect(vectors)
    }

    #[inline(always)]
    fn interleave_few(self, rows: [&[u8; MAX_SUMS]; 4]) -> I32 {
        core::array::from_fn(|j| i32::from_ne_bytes(rows.map(|row| row[j])))
    }

    #[inline(always)]
    fn low_bytes(self, x: I32) -> [u8; MAX_SUMS] {
        let mut bytes = [0; MAX_SUMS];
        for (to, x) in bytes.iter_mut().zip(x) {
            *to = x as u8;
        }
        bytes
    }
}
