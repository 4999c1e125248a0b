//! A row times a few columns of a matrix of bytes, four of each at a time in a processor's ordinary
//! registers.

use super::COLUMNS;
use crate::loops::bounds::reach;

/// Adds to the sums of some columns their products with a row, bytes without a sign once they are
/// flipped. Weights have a sign: the quads of all columns lie side by side, those of the next four
/// `step` words behind. What fills up the last quads is zero.
#[inline(never)]
pub(crate) fn add_row_products(
    x: &[u8],
    flip: u8,
    weights: &[[u8; 4]],
    step: usize,
    sums: &mut [i32; COLUMNS],
) {
    let Some(last) = x.len().div_ceil(4).checked_sub(1) else { return };
    assert!(reach([[last, step], [COLUMNS, 1]]) <= weights.len());
    // SAFETY: there are weights for each quad, and there is one.
    unsafe { level::add_row_products(x, flip, weights, step, sums) }
}

/// Any processor.
#[cfg(not(arm_signals))]
mod level {
    use super::{super::Quad, COLUMNS};

    /// # Safety
    /// None of it is needed here.
    #[inline(always)]
    pub unsafe fn add_row_products(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        let flip = u32::from_ne_bytes([flip; 4]);
        let mut add = |x: [u8; 4], w: &[[u8; 4]]| {
            let x = Quad::unsigned(u32::from_ne_bytes(x) ^ flip);
            for (sum, &w) in sums.iter_mut().zip(w) {
                *sum = x.add_products(Quad::signed(u32::from_ne_bytes(w)), *sum);
            }
        };
        let (quads, rest) = x.as_chunks();
        let mut weights = weights.chunks(step);
        for (&x, w) in quads.iter().zip(&mut weights) {
            // The length is known, so the sums stay in registers.
            let Some(w) = w.first_chunk::<COLUMNS>() else { return };
            add(x, w);
        }
        if let (false, Some(w)) = (rest.is_empty(), weights.next()) {
            let mut last = [0; 4];
            last.iter_mut().zip(rest).for_each(|(to, &x)| *to = x);
            add(last, w);
        }
    }
}

/// A Cortex-M that multiplies pairs.
#[cfg(all(arm_signals, not(arm_vectors)))]
mod level {
    use super::COLUMNS;
    use core::arch::asm;

    /// # Safety
    /// For each quad, there are weights; and there is one.
    #[inline(always)]
    pub unsafe fn add_row_products(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        // SAFETY: the caller vouches for the weights.
        unsafe {
            match flip {
                0 => add::<0>(x, weights, step, sums),
                _ => add::<0x8080_8080>(x, weights, step, sums),
            }
        }
    }

    /// # Safety
    /// As for the function above.
    #[inline(always)]
    unsafe fn add<const FLIP: u32>(
        x: &[u8],
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        let (quads, rest) = x.as_chunks::<4>();
        if !quads.is_empty() {
            // SAFETY: the caller vouches for the weights.
            unsafe { add_quads::<FLIP>(quads, weights, step, sums) };
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last.iter_mut().zip(rest).for_each(|(to, &x)| *to = x);
            // SAFETY: likewise.
            unsafe { add_quads::<FLIP>(&[last], &weights[quads.len() * step..], step, sums) };
        }
    }

    /// # Safety
    /// As for the function above.
    #[inline(never)]
    unsafe fn add_quads<const FLIP: u32>(
        x: &[[u8; 4]],
        weights: &[[u8; 4]],
        step: usize,
        [a, b, c, d]: &mut [i32; COLUMNS],
    ) {
        let x = x.as_ptr_range();
        // SAFETY: the build script saw that the processor has the instructions. They read the quads,
        // wherever they are, and four words of weights for each.
        unsafe {
            asm!(
                "2:",
                "ldr {even}, [{x}], #4",
                "eor {even}, {even}, #{flip}",
                "uxtb16 {odd}, {even}, ror #8",
                "uxtb16 {even}, {even}",
                "ldr {w}, [{at}]",
                "sxtb16 {pair}, {w}",
                "sxtb16 {w}, {w}, ror #8",
                "smlad {a}, {even}, {pair}, {a}",
                "smlad {a}, {odd}, {w}, {a}",
                "ldr {w}, [{at}, #4]",
                "sxtb16 {pair}, {w}",
                "sxtb16 {w}, {w}, ror #8",
                "smlad {b}, {even}, {pair}, {b}",
                "smlad {b}, {odd}, {w}, {b}",
                "ldr {w}, [{at}, #8]",
                "sxtb16 {pair}, {w}",
                "sxtb16 {w}, {w}, ror #8",
                "smlad {c}, {even}, {pair}, {c}",
                "smlad {c}, {odd}, {w}, {c}",
                "ldr {w}, [{at}, #12]",
                "sxtb16 {pair}, {w}",
                "sxtb16 {w}, {w}, ror #8",
                "smlad {d}, {even}, {pair}, {d}",
                "smlad {d}, {odd}, {w}, {d}",
                "add {at}, {at}, {step}",
                "cmp {x}, {end}",
                "bne 2b",
                a = inout(reg) *a,
                b = inout(reg) *b,
                c = inout(reg) *c,
                d = inout(reg) *d,
                x = inout(reg) x.start => _,
                end = in(reg) x.end,
                at = inout(reg) weights.as_ptr() => _,
                step = in(reg) 4 * step,
                even = out(reg) _,
                odd = out(reg) _,
                w = out(reg) _,
                pair = out(reg) _,
                flip = const FLIP,
                options(readonly, nostack),
            );
        }
    }
}

/// A Cortex-M with Helium, which multiplies four quads of a column at once. It does so with bytes that
/// have a sign both, so the row has one, and 128 times the weights is added.
#[cfg(arm_vectors)]
mod level {
    use super::COLUMNS;
    use core::arch::asm;

    /// # Safety
    /// For each quad, there are weights; and there is one.
    #[inline(always)]
    pub unsafe fn add_row_products(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        let (pairs, _) = sums.as_chunks_mut();
        for (i, sums) in pairs.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the weights of four columns.
            unsafe { add_pair(x, flip, &weights[2 * i..], step, sums) };
        }
    }

    /// The same for two columns.
    ///
    /// # Safety
    /// As for the function above.
    #[inline(always)]
    unsafe fn add_pair(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        [a, b]: &mut [i32; 2],
    ) {
        let (mut of_a, mut of_b) = (0i32, 0i32);
        // SAFETY: the build script saw that the processor has the instructions. They read the row's
        // bytes, and two words of weights for each of its quads.
        unsafe {
            asm!(
                "vidup.u32 q0, r2, #1",
                "vmul.i32 q0, q0, {step}",
                "vadd.i32 q0, q0, {w}",
                "mov r2, #0",
                "lsl {step}, {step}, #2",
                "vdup.8 q4, {flip}",
                "dlstp.8 lr, lr",
                "2:",
                "vldrb.u8 q1, [{x}], #16",
                "veor q1, q1, q4",
                "vldrw.u32 q2, [q0]",
                "vmladava.s8 r0, q1, q2",
                "vaddva.s8 r2, q2",
                "vldrw.u32 q3, [q0, #4]",
                "vmladava.s8 r4, q1, q3",
                "vaddva.s8 r8, q3",
                "vadd.i32 q0, q0, {step}",
                "letp lr, 2b",
                inout("r0") *a,
                inout("r2") of_a,
                inout("r4") *b,
                inout("r8") of_b,
                inout("lr") x.len() => _,
                x = inout(reg) x.as_ptr() => _,
                w = in(reg) weights.as_ptr(),
                step = inout(reg) 4 * step => _,
                flip = in(reg) u32::from(flip ^ 0x80),
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _,
                out("s17") _, out("s18") _, out("s19") _,
                options(readonly, nostack),
            );
        }
        *a = a.wrapping_add(of_a.wrapping_mul(128));
        *b = b.wrapping_add(of_b.wrapping_mul(128));
    }
}
