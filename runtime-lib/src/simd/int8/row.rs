//! Products of a row and a few columns of bytes, four of each at a time in general-purpose
//! registers.

use super::COLUMNS;
use crate::loops::bounds::reach;

/// Adds to the accumulators of some columns their products with a row. The row's bytes are unsigned
/// after XOR with `flip`; the weights are signed: the quads of all columns are contiguous, and the
/// next quads are `step` words behind. The padding of the last quads is zero.
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
    // SAFETY: there is at least one quad, and the assertion above covers the weights of each.
    unsafe { level::add_row_products(x, flip, weights, step, sums) }
}

/// Any processor.
#[cfg(not(arm_signals))]
mod level {
    use super::{super::Quad, COLUMNS};

    /// # Safety
    ///
    /// This implementation has no requirements.
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
            // The length is a constant, so the accumulators stay in registers.
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
    ///
    /// There is at least one quad, and weights for each.
    #[inline(always)]
    pub unsafe fn add_row_products(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        // SAFETY: by this function's contract, there are weights for each quad.
        unsafe {
            match flip {
                0 => add::<0>(x, weights, step, sums),
                _ => add::<0x8080_8080>(x, weights, step, sums),
            }
        }
    }

    /// # Safety
    ///
    /// The contract of the function above.
    #[inline(always)]
    unsafe fn add<const FLIP: u32>(
        x: &[u8],
        weights: &[[u8; 4]],
        step: usize,
        sums: &mut [i32; COLUMNS],
    ) {
        let (quads, rest) = x.as_chunks::<4>();
        if !quads.is_empty() {
            // SAFETY: by this function's contract, there are weights for each quad.
            unsafe { add_quads::<FLIP>(quads, weights, step, sums) };
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last.iter_mut().zip(rest).for_each(|(to, &x)| *to = x);
            // SAFETY: by this function's contract, there are weights for the last quad.
            unsafe { add_quads::<FLIP>(&[last], &weights[quads.len() * step..], step, sums) };
        }
    }

    /// # Safety
    ///
    /// The contract of the function above.
    #[inline(never)]
    unsafe fn add_quads<const FLIP: u32>(
        x: &[[u8; 4]],
        weights: &[[u8; 4]],
        step: usize,
        [a, b, c, d]: &mut [i32; COLUMNS],
    ) {
        let x = x.as_ptr_range();
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read the
        // quads, at any alignment, and four words of weights for each by this function's contract.
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

/// A Cortex-M with Helium, which multiplies four quads of a column at once. Its instruction
/// multiplies signed bytes, so the row is converted to signed bytes, and 128 times the weights is
/// added.
#[cfg(arm_vectors)]
mod level {
    use super::COLUMNS;
    use core::arch::asm;

    /// # Safety
    ///
    /// There is at least one quad, and weights for each.
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
            // SAFETY: by this function's contract, there are weights of four columns for each quad.
            unsafe { add_pair(x, flip, &weights[2 * i..], step, sums) };
        }
    }

    /// Adds the products of two columns.
    ///
    /// # Safety
    ///
    /// The contract of the function above.
    #[inline(always)]
    unsafe fn add_pair(
        x: &[u8],
        flip: u8,
        weights: &[[u8; 4]],
        step: usize,
        [a, b]: &mut [i32; 2],
    ) {
        let (mut of_a, mut of_b) = (0i32, 0i32);
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read the
        // row's bytes, and two words of weights for each of its quads by this function's contract.
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
