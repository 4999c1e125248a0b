//! Four bytes at a time in a processor's ordinary registers. Cortex-M with instructions for signals
//! multiplies them by pairs.

use crate::loops::bounds::reach;

/// Four bytes, as two pairs of numbers of 16 bits: those at even places and those at odd ones.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quad {
    even: i32,
    odd: i32,
}

/// Columns of a product that are computed at once.
pub(crate) const COLUMNS: usize = 4;
/// A quad of each of so many columns.
pub(crate) type Quads = [Quad; COLUMNS];

impl Quad {
    /// Bytes from 0 to 255.
    #[inline(always)]
    pub fn unsigned(bytes: u32) -> Quad {
        Quad { even: (bytes & 0x00ff_00ff) as i32, odd: (bytes >> 8 & 0x00ff_00ff) as i32 }
    }

    /// Bytes from -128 to 127.
    #[inline(always)]
    pub fn signed(bytes: u32) -> Quad {
        Quad { even: level::extend(bytes), odd: level::extend(bytes.rotate_right(8)) }
    }

    /// `sum`, and the sum of the products of both's bytes; it wraps around.
    #[inline(always)]
    pub fn add_products(self, other: Quad, sum: i32) -> i32 {
        level::multiply(self.odd, other.odd, level::multiply(self.even, other.even, sum))
    }

    /// The byte at a place, from -128 to 127.
    #[cfg(all(arm_signals, not(arm_vectors)))]
    pub fn signed_byte(&self, i: usize) -> i32 {
        let pair = if i.is_multiple_of(2) { self.even } else { self.odd };
        pair << (16 - 8 * (i & 2)) >> 16
    }

    /// Memory for quads: what is aligned of these bytes.
    pub fn memory(bytes: &mut [u8]) -> &mut [Quads] {
        // SAFETY: whatever the bits are, they are quads, and quads leave none unset.
        unsafe { bytes.align_to_mut().1 }
    }
}

/// `sum`, and the products of bytes from 0 to 255 with as many bytes from -128 to 127; it wraps around.
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

/// Memory for sums: what is aligned of these bytes.
pub(crate) fn sums_memory(bytes: &mut [u8]) -> &mut [i32] {
    // SAFETY: whatever the bits are, they are numbers, and numbers leave none unset.
    unsafe { bytes.align_to_mut().1 }
}

/// Writes quad `at` of each of some columns, bytes from 0 to 255.
#[inline(always)]
pub(crate) fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
    level::set(panel, at, columns);
}

/// The sums of some columns, whose quads are [`set`], for each row of weights, bytes with a sign: what
/// `starts` has for the row, and the products. The quads of the rows lie one after the other, those of
/// each row's next four weights `step` words behind. Sums wrap around.
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
            // SAFETY: there is a quad of columns, and weights of the row for each.
            *sums = unsafe { level::add_products(*sums, columns, &weights[i..], step) };
        }
    }
}

/// Four rows of four bytes, turned: each result has one byte of each row.
#[inline(always)]
pub(crate) fn iteration(rows: [u32; 4]) -> [u32; 4] {
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

    /// One quad of each column after the last.
    #[inline(always)]
    pub fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
        if let Some(to) = panel.get_mut(at) {
            *to = columns.map(Quad::unsigned);
        }
    }

    /// The bytes at even places, each as 16 bits with a sign.
    #[inline(always)]
    pub fn extend(bytes: u32) -> i32 {
        i32::from(bytes as i8) & 0xffff | i32::from((bytes >> 16) as i8) << 16
    }

    /// `sum` and the products of both pairs.
    #[inline(always)]
    pub fn multiply(a: i32, b: i32, sum: i32) -> i32 {
        let low = i32::from(a as i16) * i32::from(b as i16);
        sum.wrapping_add(low).wrapping_add((a >> 16) * (b >> 16))
    }

    /// # Safety
    /// As for the function above, with one quad at least.
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

/// A Cortex-M with instructions for signals.
#[cfg(arm_signals)]
mod level {
    #[cfg(arm_vectors)]
    pub use super::helium::{add_products, set};
    #[cfg(not(arm_vectors))]
    pub use super::pairs::{add_products, set};
    use core::arch::asm;

    /// The bytes at even places, each as 16 bits with a sign.
    #[inline(always)]
    pub fn extend(bytes: u32) -> i32 {
        let pair;
        // SAFETY: the build script saw that the processor has the instruction, which only computes.
        unsafe {
            asm!("sxtb16 {}, {}", out(reg) pair, in(reg) bytes, options(pure, nomem, nostack));
        }
        pair
    }

    /// `sum` and the products of both pairs.
    #[inline(always)]
    pub fn multiply(a: i32, b: i32, sum: i32) -> i32 {
        let y;
        // SAFETY: likewise.
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

    /// One quad of each column after the last.
    #[inline(always)]
    pub fn set(panel: &mut [Quads], at: usize, columns: [u32; COLUMNS]) {
        if let Some(to) = panel.get_mut(at) {
            *to = columns.map(Quad::unsigned);
        }
    }

    /// # Safety
    /// As for the function above, with one quad at least.
    #[inline(always)]
    pub unsafe fn add_products(
        [mut a, mut b, mut c, mut d]: [i32; COLUMNS],
        columns: &[Quads],
        weights: &[[u8; 4]],
        step: usize,
    ) -> [i32; COLUMNS] {
        let columns = columns.as_ptr_range();
        // SAFETY: the build script saw that the processor has the instructions. They read the quads
        // of all columns, which are aligned, and one word of weights for each.
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

/// Columns on a Cortex-M with Helium, which multiplies four quads of a column at once. It does so
/// with bytes that have a sign both, so columns have one, and 128 times the weights is added.
#[cfg(arm_vectors)]
mod helium {
    use super::{COLUMNS, Quads};
    use core::arch::asm;

    /// One column after the other, as words.
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

    /// `sum`, and the products of bytes from 0 to 255 with as many bytes from -128 to 127; it wraps
    /// around.
    #[inline(always)]
    pub fn dot(x: &[u8], w: &[u8], sum: i32) -> i32 {
        let (mut products, mut weights) = (sum, 0i32);
        // SAFETY: the build script saw that the processor has the instructions. They read as many
        // bytes as both slices have: lanes that are left over do nothing.
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
    /// As for the function above, with one quad at least.
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
        // SAFETY: the build script saw that the processor has the instructions. They read a word of
        // each column and one of weights for each quad, and none where no quad is left.
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
