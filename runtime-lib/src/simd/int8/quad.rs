//! Products of four bytes at a time in general-purpose registers. A Cortex-M with DSP instructions
//! multiplies them in pairs.

use crate::loops::bounds::reach;

/// Four bytes as two pairs of 16-bit numbers: those at even positions and those at odd ones.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quad {
    even: i32,
    odd: i32,
}

/// The number of columns of a product that are computed at once.
pub(crate) const COLUMNS: usize = 4;
/// A quad of each column.
pub(crate) type Quads = [Quad; COLUMNS];

impl Quad {
    /// Creates a quad of unsigned bytes.
    #[inline(always)]
    pub fn unsigned(bytes: u32) -> Quad {
        Quad { even: (bytes & 0x00ff_00ff) as i32, odd: (bytes >> 8 & 0x00ff_00ff) as i32 }
    }

    /// Creates a quad of signed bytes.
    #[inline(always)]
    pub fn signed(bytes: u32) -> Quad {
        Quad { even: level::extend(bytes), odd: level::extend(bytes.rotate_right(8)) }
    }

    /// Returns `sum` plus the products of the bytes, wrapping.
    #[inline(always)]
    pub fn add_products(self, other: Quad, sum: i32) -> i32 {
        level::multiply(self.odd, other.odd, level::multiply(self.even, other.even, sum))
    }

    /// Returns byte `i`, signed.
    #[cfg(all(arm_signals, not(arm_vectors)))]
    pub fn signed_byte(&self, i: usize) -> i32 {
        let pair = if i.is_multiple_of(2) { self.even } else { self.odd };
        pair << (16 - 8 * (i & 2)) >> 16
    }

    /// Returns the aligned part of `bytes` as memory for quads.
    pub fn memory(bytes: &mut [u8]) -> &mut [Quads] {
        // SAFETY: all bit patterns are valid quads, and quads have no padding.
        unsafe { bytes.align_to_mut().1 }
    }
}

/// Returns `sum` plus the dot product of unsigned and signed bytes, wrapping.
#[cfg(not(arm_vectors))]
#[inline(always)]
pub(crate) fn dot(x: &[u8], w: &[u8], mut sum: i32) -> i32 {
    let ((quads, x), (weights, w)) = (x.as_chunks(), w.as_chunks());
    for (&x, &w) in quads.iter().zip(weights) {
        let (x, w) = (u32::from_ne_bytes(x), u32::from_ne_bytes(w));
        sum = Quad::unsigned(x).add_products(Quad::signed(w), sum);
    }
    for (&x, &w) in x.iter().zip(w) {
        sum = sum.wrapping_add(i32::from(x) * i32::from(w as i8));
    }
    sum
}

#[cfg(arm_vectors)]
pub(crate) use helium::dot;

/// Returns the aligned part of `bytes` as memory for accumulators.
pub(crate) fn sums_memory(bytes: &mut [u8]) -> &mut [i32] {
    // SAFETY: all bit patterns are valid `i32`, which have no padding.
    unsafe { bytes.align_to_mut().1 }
}

/// Writes quad `at` of each column, as unsigned bytes.
#[inline(always)]
pub(crate) fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
    level::set(panel, at, columns);
}

/// Computes, for each row of signed weights, the initial value in `starts` plus the products with
/// the columns, whose quads are written by [`set`]. The quads of the rows are contiguous; a row's
/// next quad is `step` words behind. Accumulators wrap around.
#[inline(never)]
pub(crate) fn add_products(
    columns: &[Quads],
    weights: &[[u8; 4]],
    step: usize,
    starts: &[i32],
    sums: &mut [[i32; COLUMNS]],
) {
    let last = columns.len().saturating_sub(1);
    assert!(columns.is_empty() || reach([[last, step], [starts.len(), 1]]) <= weights.len());
    for (i, (sums, &start)) in sums.iter_mut().zip(starts).enumerate() {
        *sums = [start; COLUMNS];
        if !columns.is_empty() {
            // SAFETY: there is a quad of columns, and the assertion above covers the row's weights
            // for each.
            *sums = unsafe { level::add_products(*sums, columns, &weights[i..], step) };
        }
    }
}

/// Transposes four rows of four bytes: each result has one byte of each row.
#[inline(always)]
pub(crate) fn transpose(rows: [u32; 4]) -> [u32; 4] {
    const EVEN: u32 = 0x00ff_00ff;
    let [a, b, c, d] = rows.map(u32::to_le);
    let even = [a & EVEN | (b & EVEN) << 8, c & EVEN | (d & EVEN) << 8];
    let odd = [a >> 8 & EVEN | b & !EVEN, c >> 8 & EVEN | d & !EVEN];
    let low = |[a, b]: [u32; 2]| u32::from_le(a & 0xffff | b << 16);
    let high = |[a, b]: [u32; 2]| u32::from_le(a >> 16 | b & 0xffff_0000);
    [low(even), low(odd), high(even), high(odd)]
}

/// Any processor.
#[cfg(not(arm_signals))]
mod level {
    use super::{COLUMNS, Quad, Quads};

    /// Writes one quad of each column after the previous one.
    #[inline(always)]
    pub fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
        if let Some(to) = panel.get_mut(at) {
            *to = columns.map(Quad::unsigned);
        }
    }

    /// Returns the bytes at even positions, sign-extended to 16 bits.
    #[inline(always)]
    pub fn extend(bytes: u32) -> i32 {
        i32::from(bytes as i8) & 0xffff | i32::from((bytes >> 16) as i8) << 16
    }

    /// Returns `sum` plus the products of both pairs.
    #[inline(always)]
    pub fn multiply(a: i32, b: i32, sum: i32) -> i32 {
        let low = i32::from(a as i16) * i32::from(b as i16);
        sum.wrapping_add(low).wrapping_add((a >> 16) * (b >> 16))
    }

    /// # Safety
    ///
    /// The contract of the function above, with at least one quad.
    #[inline(always)]
    pub unsafe fn add_products(
        mut sums: [i32; COLUMNS],
        columns: &[Quads],
        weights: &[[u8; 4]],
        step: usize,
    ) -> [i32; COLUMNS] {
        for (columns, w) in columns.iter().zip(weights.iter().step_by(step)) {
            let [a, b, c, d] = u32::from_ne_bytes(*w).to_le_bytes().map(|w| i32::from(w as i8));
            for (sum, x) in sums.iter_mut().zip(columns) {
                let even = (x.even & 0xffff) * a + (x.even >> 16) * c;
                *sum = sum.wrapping_add(even + (x.odd & 0xffff) * b + (x.odd >> 16) * d);
            }
        }
        sums
    }
}

/// A Cortex-M with DSP instructions.
#[cfg(arm_signals)]
mod level {
    #[cfg(arm_vectors)]
    pub use super::helium::{add_products, set};
    #[cfg(not(arm_vectors))]
    pub use super::pairs::{add_products, set};
    use core::arch::asm;

    /// Returns the bytes at even positions, sign-extended to 16 bits.
    #[inline(always)]
    pub fn extend(bytes: u32) -> i32 {
        let pair;
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instruction, which does not
        // access memory.
        unsafe {
            asm!("sxtb16 {}, {}", out(reg) pair, in(reg) bytes, options(pure, nomem, nostack));
        }
        pair
    }

    /// Returns `sum` plus the products of both pairs.
    #[inline(always)]
    pub fn multiply(a: i32, b: i32, sum: i32) -> i32 {
        let y;
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instruction, which does not
        // access memory.
        unsafe {
            asm!("smlad {}, {}, {}, {}", out(reg) y, in(reg) a, in(reg) b, in(reg) sum,
                options(pure, nomem, nostack));
        }
        y
    }
}

/// Columns on a Cortex-M that multiplies pairs.
#[cfg(all(arm_signals, not(arm_vectors)))]
mod pairs {
    use super::{COLUMNS, Quad, Quads};
    use core::arch::asm;

    /// Writes one quad of each column after the previous one.
    #[inline(always)]
    pub fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
        if let Some(to) = panel.get_mut(at) {
            *to = columns.map(Quad::unsigned);
        }
    }

    /// # Safety
    ///
    /// There is at least one quad of columns, and a word of weights every `step` words for each.
    #[inline(always)]
    pub unsafe fn add_products(
        [mut a, mut b, mut c, mut d]: [i32; COLUMNS],
        columns: &[Quads],
        weights: &[[u8; 4]],
        step: usize,
    ) -> [i32; COLUMNS] {
        let columns = columns.as_ptr_range();
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read the
        // quads of all columns, which are aligned, and one word of weights for each by this
        // function's contract.
        unsafe {
            asm!(
                "2:",
                "ldr {x}, [{w}]",
                "add {w}, {w}, {step}",
                "sxtb16 {even}, {x}",
                "sxtb16 {odd}, {x}, ror #8",
                "ldrd {x}, {y}, [{at}], #8",
                "smlad {a}, {x}, {even}, {a}",
                "smlad {a}, {y}, {odd}, {a}",
                "ldrd {x}, {y}, [{at}], #8",
                "smlad {b}, {x}, {even}, {b}",
                "smlad {b}, {y}, {odd}, {b}",
                "ldrd {x}, {y}, [{at}], #8",
                "smlad {c}, {x}, {even}, {c}",
                "smlad {c}, {y}, {odd}, {c}",
                "ldrd {x}, {y}, [{at}], #8",
                "smlad {d}, {x}, {even}, {d}",
                "smlad {d}, {y}, {odd}, {d}",
                "cmp {at}, {end}",
                "bne 2b",
                a = inout(reg) a,
                b = inout(reg) b,
                c = inout(reg) c,
                d = inout(reg) d,
                w = inout(reg) weights.as_ptr() => _,
                at = inout(reg) columns.start => _,
                step = in(reg) 4 * step,
                end = in(reg) columns.end,
                x = out(reg) _,
                y = out(reg) _,
                even = out(reg) _,
                odd = out(reg) _,
                options(readonly, nostack),
            );
        }
        [a, b, c, d]
    }
}

/// Columns on a Cortex-M with Helium, which multiplies four quads of a column at once. Its
/// instruction multiplies signed bytes, so the columns are stored as signed bytes, and 128 times
/// the weights is added.
#[cfg(arm_vectors)]
mod helium {
    use super::{COLUMNS, Quads};
    use core::arch::asm;

    /// Writes the quads column by column, as words.
    #[inline(always)]
    pub fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
        let apart = panel.len();
        let panel = panel.as_flattened_mut();
        for (i, column) in columns.into_iter().enumerate() {
            let bytes = (column ^ 0x8080_8080) as i32;
            let Some(to) = panel.get_mut(i * apart + at / 2) else { return };
            if at.is_multiple_of(2) {
                to.even = bytes;
            } else {
                to.odd = bytes;
            }
        }
    }

    /// Returns `sum` plus the dot product of unsigned and signed bytes, wrapping.
    #[inline(always)]
    pub fn dot(x: &[u8], w: &[u8], sum: i32) -> i32 {
        let (mut products, mut weights) = (sum, 0i32);
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions. The
        // tail-predicated loop reads as many bytes as the shorter slice has.
        unsafe {
            asm!(
                "vmov.i8 q2, #0x80",
                "wlstp.8 lr, lr, 3f",
                "2:",
                "vldrb.u8 q0, [{x}], #16",
                "vldrb.u8 q1, [{w}], #16",
                "veor q0, q0, q2",
                "vmladava.s8 r0, q0, q1",
                "vaddva.s8 r2, q1",
                "letp lr, 2b",
                "3:",
                inout("r0") products,
                inout("r2") weights,
                inout("lr") x.len().min(w.len()) => _,
                x = inout(reg) x.as_ptr() => _,
                w = inout(reg) w.as_ptr() => _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                options(pure, readonly, nostack),
            );
        }
        products.wrapping_add(weights.wrapping_mul(128))
    }

    /// # Safety
    ///
    /// There is at least one quad of columns, and a word of weights every `step` words for each.
    #[inline(always)]
    pub unsafe fn add_products(
        [mut a, mut b, mut c, mut d]: [i32; COLUMNS],
        columns: &[Quads],
        weights: &[[u8; 4]],
        step: usize,
    ) -> [i32; COLUMNS] {
        let (quads, apart) = (columns.len(), columns.len());
        let columns = columns.as_flattened().as_ptr();
        let mut sum = 0i32;
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions. The
        // tail-predicated loop reads a word of each column and one of weights for each quad, which
        // exist by this function's contract.
        unsafe {
            asm!(
                "vidup.u32 q0, r10, #1",
                "vmul.i32 q0, q0, {step}",
                "mov r10, #0",
                "lsl {step}, {step}, #2",
                "dlstp.32 lr, lr",
                "2:",
                "vldrw.u32 q1, [{w}, q0]",
                "vldrw.u32 q2, [{x}], #16",
                "vmladava.s8 r0, q1, q2",
                "vldrw.u32 q2, [{y}], #16",
                "vmladava.s8 r2, q1, q2",
                "vldrw.u32 q2, [{z}], #16",
                "vmladava.s8 r4, q1, q2",
                "vldrw.u32 q2, [{t}], #16",
                "vmladava.s8 r8, q1, q2",
                "vaddva.s8 r10, q1",
                "add {w}, {w}, {step}",
                "letp lr, 2b",
                inout("r0") a,
                inout("r2") b,
                inout("r4") c,
                inout("r8") d,
                inout("r10") sum,
                inout("lr") quads => _,
                w = inout(reg) weights.as_ptr() => _,
                step = inout(reg) 4 * step => _,
                x = inout(reg) columns => _,
                y = inout(reg) columns.add(apart) => _,
                z = inout(reg) columns.add(2 * apart) => _,
                t = inout(reg) columns.add(3 * apart) => _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                options(readonly, nostack),
            );
        }
        sum = sum.wrapping_mul(128);
        [a, b, c, d].map(|x| x.wrapping_add(sum))
    }
}
