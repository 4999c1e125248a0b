//! Requantization of accumulators to bytes in general-purpose registers. A Cortex-M with DSP
//! instructions multiplies, rounds and saturates in one instruction each.

use super::multiplier::{Multiplier, scaled};
use super::{CHANNELS, COLUMNS};
use crate::loops::bounds::reach;

/// The range of the bytes of a result.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The zero point minus `low`.
    pub zero: i32,
    /// The smallest byte.
    pub low: i32,
    /// The largest byte minus `low`.
    pub span: i32,
}

impl Bounds {
    /// Returns the byte that is `steps` above the zero point, saturated.
    #[inline(always)]
    pub fn byte(self, steps: i32) -> u8 {
        // Some processors have an instruction for the limits 0 and 255.
        (steps.saturating_add(self.zero).clamp(0, 255).min(self.span) + self.low) as u8
    }

    /// Requantizes an accumulator: the exact product, rounded to the nearest integer, ties to even.
    #[inline(always)]
    pub fn scaled(self, sum: i32, factor: f32) -> u8 {
        self.byte(match Multiplier::of(factor) {
            Some(factor) => factor.scaled(sum),
            None => scaled(sum, factor),
        })
    }
}

/// The multipliers of the accumulators of neighboring channels.
pub(crate) struct Factors {
    mantissas: [i32; CHANNELS],
    shifts: [i32; CHANNELS],
}

impl Factors {
    /// Returns the multipliers of `factors`; `None` if one has no [`Multiplier`].
    pub fn of(factors: [f32; CHANNELS]) -> Option<Factors> {
        let (mut mantissas, mut shifts) = ([0; CHANNELS], [0; CHANNELS]);
        for (i, factor) in factors.into_iter().enumerate() {
            let factor = Multiplier::of(factor)?;
            mantissas[i] = factor.mantissa;
            shifts[i] = round::shift(factor.shift);
        }
        Some(Factors { mantissas, shifts })
    }

    /// Requantizes the accumulators: the exact products, rounded to the nearest integers, ties to
    /// even.
    #[inline(always)]
    pub fn scale(&self, sums: &[i32; CHANNELS], to: Bounds) -> [u8; CHANNELS] {
        round::scale_channels(sums, self, to)
    }
}

/// Requantizes accumulators with one factor: the exact products, rounded to the nearest integers,
/// ties to even.
#[inline(always)]
pub(crate) fn scale(sums: &[i32], factor: f32, to: Bounds, y: &mut [u8]) {
    let n = sums.len().min(y.len());
    let (sums, y) = (&sums[..n], &mut y[..n]);
    match Multiplier::of(factor) {
        Some(factor) => round::scale(sums, factor, to, y),
        None => scale_any(sums, factor, to, y),
    }
}

/// Requantizes the first `n` columns of rows, each with its own factor. The row stride of `y` is
/// `row`.
#[inline(never)]
pub(crate) fn scale_rows(
    sums: &[[i32; COLUMNS]],
    n: usize,
    factors: &[f32],
    to: Bounds,
    y: &mut [u8],
    row: usize,
) {
    for ((sums, &factor), y) in sums.iter().zip(factors).zip(y.chunks_mut(row.max(1))) {
        match (Multiplier::of(factor), y.first_chunk_mut()) {
            (Some(factor), Some(y)) if to.span == 255 && n == COLUMNS => {
                round::scale_columns(sums, factor, to, y);
            }
            _ => scale_few(&sums[..n], factor, to, y),
        }
    }
}

/// Requantizes rows of columns, all of whose factors have a [`Multiplier`]. The results of a column
/// are contiguous, and the stride of columns is `pixel`. The number of rows is a multiple of four.
#[inline(never)]
pub(crate) fn scale_pixels(
    sums: &[[i32; COLUMNS]],
    factors: &[f32],
    to: Bounds,
    y: &mut [u8],
    pixel: usize,
) {
    let n = sums.len().min(factors.len());
    assert!(n.is_multiple_of(4) && n <= pixel);
    assert!(y.len() >= reach([[COLUMNS - 1, pixel], [n, 1]]));
    round::scale_pixels(&sums[..n], &factors[..n], to, y, pixel);
}

/// Calls [`scale`], without inlining it into the caller.
#[inline(never)]
fn scale_few(sums: &[i32], factor: f32, to: Bounds, y: &mut [u8]) {
    scale(sums, factor, to, y);
}

/// Requantizes accumulators with any factor.
#[inline(never)]
fn scale_any(sums: &[i32], factor: f32, to: Bounds, y: &mut [u8]) {
    for (&sum, y) in sums.iter().zip(y) {
        *y = to.byte(scaled(sum, factor));
    }
}

/// Any processor.
#[cfg(not(arm_vectors))]
mod round {
    use super::{Bounds, CHANNELS, COLUMNS, Factors, Multiplier};

    /// Returns a shift as [`Factors`] stores it.
    pub fn shift(shift: u32) -> i32 {
        shift as i32
    }

    /// Computes [`Factors::scale`].
    #[inline(always)]
    pub fn scale_channels(sums: &[i32; CHANNELS], factors: &Factors, to: Bounds) -> [u8; CHANNELS] {
        let mut y = [0; CHANNELS];
        for (i, y) in y.iter_mut().enumerate() {
            let shift = factors.shifts[i] as u32;
            *y = to.byte(Multiplier { mantissa: factors.mantissas[i], shift }.scaled(sums[i]));
        }
        y
    }

    /// Computes [`scale`](super::scale) with a multiplier.
    #[inline(always)]
    pub fn scale(sums: &[i32], factor: Multiplier, to: Bounds, y: &mut [u8]) {
        for (&sum, y) in sums.iter().zip(y) {
            *y = to.byte(factor.scaled(sum));
        }
    }

    /// Computes [`scale_pixels`](super::scale_pixels).
    #[inline(always)]
    pub fn scale_pixels(
        sums: &[[i32; COLUMNS]],
        factors: &[f32],
        to: Bounds,
        y: &mut [u8],
        pixel: usize,
    ) {
        for (i, (sums, &factor)) in sums.iter().zip(factors).enumerate() {
            let (factor, mut bytes) = (Multiplier::of_plain(factor), [0; COLUMNS]);
            match to.span {
                255 => scale_columns(sums, factor, to, &mut bytes),
                _ => scale(sums, factor, to, &mut bytes),
            }
            for (y, byte) in y[i..].iter_mut().step_by(pixel).zip(bytes) {
                *y = byte;
            }
        }
    }

    /// Requantizes the columns of a row to bytes from 0 to 255 above `low`.
    #[cfg(not(arm_signals))]
    #[inline(always)]
    pub fn scale_columns(
        sums: &[i32; COLUMNS],
        factor: Multiplier,
        to: Bounds,
        y: &mut [u8; COLUMNS],
    ) {
        scale(sums, factor, to, y);
    }
    #[cfg(arm_signals)]
    pub use super::signals::scale_columns;
}

/// A Cortex-M with DSP instructions.
#[cfg(all(arm_signals, not(arm_vectors)))]
mod signals {
    use super::{Bounds, COLUMNS, Multiplier};
    use core::arch::asm;

    /// Requantizes the columns of a row to bytes from 0 to 255 above `low`.
    #[inline(always)]
    pub fn scale_columns(
        &[mut a, b, c, d]: &[i32; COLUMNS],
        factor: Multiplier,
        to: Bounds,
        y: &mut [u8; COLUMNS],
    ) {
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which do not
        // access memory.
        unsafe {
            asm!(
                "smmla {a}, {a}, {factor}, {half}",
                "smmla {b}, {b}, {factor}, {half}",
                "smmla {c}, {c}, {factor}, {half}",
                "smmla {d}, {d}, {factor}, {half}",
                "asr {a}, {a}, {shift}",
                "asr {b}, {b}, {shift}",
                "asr {c}, {c}, {shift}",
                "asr {d}, {d}, {shift}",
                "add {a}, {a}, {zero}",
                "add {b}, {b}, {zero}",
                "add {c}, {c}, {zero}",
                "add {d}, {d}, {zero}",
                "usat {a}, #8, {a}",
                "usat {b}, #8, {b}",
                "usat {c}, #8, {c}",
                "usat {d}, #8, {d}",
                "orr {a}, {a}, {b}, lsl #8",
                "orr {a}, {a}, {c}, lsl #16",
                "orr {a}, {a}, {d}, lsl #24",
                "uadd8 {a}, {a}, {low}",
                a = inout(reg) a,
                b = inout(reg) b => _,
                c = inout(reg) c => _,
                d = inout(reg) d => _,
                factor = in(reg) factor.mantissa,
                half = in(reg) 1 << (factor.shift - 1),
                shift = in(reg) factor.shift,
                zero = in(reg) to.zero,
                low = in(reg) i32::from_ne_bytes([to.low as u8; COLUMNS]),
                options(pure, nomem, nostack),
            );
        }
        *y = a.to_ne_bytes();
    }
}

/// A Cortex-M with Helium.
#[cfg(arm_vectors)]
mod round {
    use super::{Bounds, CHANNELS, COLUMNS, Factors, Multiplier};
    use core::arch::asm;

    /// Returns a shift as [`Factors`] stores it: to the left.
    pub fn shift(shift: u32) -> i32 {
        -(shift as i32)
    }

    /// Computes [`Factors::scale`].
    #[inline(always)]
    pub fn scale_channels(sums: &[i32; CHANNELS], factors: &Factors, to: Bounds) -> [u8; CHANNELS] {
        let mut y = [0; CHANNELS];
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read
        // eight accumulators and their factors, and write eight bytes: the lengths of the arrays.
        unsafe {
            asm!(
                "vdup.32 q2, {none}",
                "vdup.32 q3, {span}",
                "vldrw.u32 q0, [{sums}]",
                "vldrw.u32 q1, [{mantissas}]",
                "vmulh.s32 q0, q0, q1",
                "vldrw.u32 q1, [{shifts}]",
                "vrshl.s32 q0, q0, q1",
                "vadd.i32 q0, q0, {zero}",
                "vmax.s32 q0, q0, q2",
                "vmin.s32 q0, q0, q3",
                "vadd.i32 q0, q0, {low}",
                // The store needs an address in one of the first eight registers.
                "vstrb.32 q0, [r0]",
                "vldrw.u32 q0, [{sums}, #16]",
                "vldrw.u32 q1, [{mantissas}, #16]",
                "vmulh.s32 q0, q0, q1",
                "vldrw.u32 q1, [{shifts}, #16]",
                "vrshl.s32 q0, q0, q1",
                "vadd.i32 q0, q0, {zero}",
                "vmax.s32 q0, q0, q2",
                "vmin.s32 q0, q0, q3",
                "vadd.i32 q0, q0, {low}",
                "vstrb.32 q0, [r0, #4]",
                sums = in(reg) sums.as_ptr(),
                mantissas = in(reg) factors.mantissas.as_ptr(),
                shifts = in(reg) factors.shifts.as_ptr(),
                in("r0") y.as_mut_ptr(),
                none = in(reg) 0,
                span = in(reg) to.span,
                zero = in(reg) to.zero,
                low = in(reg) to.low,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                options(nostack),
            );
        }
        y
    }

    /// Computes [`scale_pixels`](super::scale_pixels). Four rows of accumulators are transposed to
    /// four vectors of a column each.
    #[inline(always)]
    pub fn scale_pixels(
        sums: &[[i32; COLUMNS]],
        factors: &[f32],
        to: Bounds,
        y: &mut [u8],
        pixel: usize,
    ) {
        if sums.is_empty() {
            return;
        }
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read
        // four rows and their factors at a time, and write four bytes of each column;
        // `super::scale_pixels` asserts their lengths.
        unsafe {
            asm!(
                "vdup.32 q6, {none}",
                "vdup.32 q7, {span}",
                "dls lr, lr",
                "2:",
                "vldrw.u32 q4, [{factors}], #16",
                "vshl.i32 q5, q4, #7",
                "vbic.i32 q5, #0xc0000000",
                "vorr.i32 q5, #0x40000000",
                "vshr.u32 q4, q4, #23",
                "vsub.i32 q4, q4, {exponent}",
                "vld40.32 {{q0, q1, q2, q3}}, [{sums}]",
                "vld41.32 {{q0, q1, q2, q3}}, [{sums}]",
                "vld42.32 {{q0, q1, q2, q3}}, [{sums}]",
                "vld43.32 {{q0, q1, q2, q3}}, [{sums}]!",
                "vmulh.s32 q0, q0, q5",
                "vmulh.s32 q1, q1, q5",
                "vmulh.s32 q2, q2, q5",
                "vmulh.s32 q3, q3, q5",
                "vrshl.s32 q0, q0, q4",
                "vrshl.s32 q1, q1, q4",
                "vrshl.s32 q2, q2, q4",
                "vrshl.s32 q3, q3, q4",
                "vadd.i32 q0, q0, {zero}",
                "vadd.i32 q1, q1, {zero}",
                "vadd.i32 q2, q2, {zero}",
                "vadd.i32 q3, q3, {zero}",
                "vmax.s32 q0, q0, q6",
                "vmax.s32 q1, q1, q6",
                "vmax.s32 q2, q2, q6",
                "vmax.s32 q3, q3, q6",
                "vmin.s32 q0, q0, q7",
                "vmin.s32 q1, q1, q7",
                "vmin.s32 q2, q2, q7",
                "vmin.s32 q3, q3, q7",
                "vadd.i32 q0, q0, {low}",
                "vadd.i32 q1, q1, {low}",
                "vadd.i32 q2, q2, {low}",
                "vadd.i32 q3, q3, {low}",
                // The stores need addresses in the first eight registers.
                "vstrb.32 q0, [r0]",
                "add r1, r0, {pixel}",
                "vstrb.32 q1, [r1]",
                "add r1, r1, {pixel}",
                "vstrb.32 q2, [r1]",
                "add r1, r1, {pixel}",
                "vstrb.32 q3, [r1]",
                "add r0, r0, #4",
                "le lr, 2b",
                inout("lr") sums.len() / 4 => _,
                inout("r0") y.as_mut_ptr() => _,
                inout("r1") 0 => _,
                sums = inout(reg) sums.as_ptr() => _,
                factors = inout(reg) factors.as_ptr() => _,
                pixel = in(reg) pixel,
                exponent = in(reg) 125,
                none = in(reg) 0,
                span = in(reg) to.span,
                zero = in(reg) to.zero,
                low = in(reg) to.low,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _,
                out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _,
                out("s22") _, out("s23") _, out("s24") _, out("s25") _, out("s26") _,
                out("s27") _, out("s28") _, out("s29") _, out("s30") _, out("s31") _,
                options(nostack),
            );
        }
    }

    /// Computes [`scale`](super::scale) with a multiplier.
    #[inline(always)]
    pub fn scale(sums: &[i32], factor: Multiplier, to: Bounds, y: &mut [u8]) {
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions. The
        // tail-predicated loop reads `sums.len()` accumulators and writes as many bytes, the length
        // of `y`.
        unsafe {
            asm!(
                "vdup.32 q1, {none}",
                "vdup.32 q2, {span}",
                "vdup.32 q3, {mantissa}",
                "wlstp.32 lr, lr, 3f",
                "2:",
                "vldrw.u32 q0, [{sums}], #16",
                "vmulh.s32 q0, q0, q3",
                "vrshl.s32 q0, {left}",
                "vadd.i32 q0, q0, {zero}",
                "vmax.s32 q0, q0, q1",
                "vmin.s32 q0, q0, q2",
                "vadd.i32 q0, q0, {low}",
                // The store needs an address in one of the first eight registers.
                "vstrb.32 q0, [r0], #4",
                "letp lr, 2b",
                "3:",
                inout("lr") sums.len() => _,
                sums = inout(reg) sums.as_ptr() => _,
                inout("r0") y.as_mut_ptr() => _,
                none = in(reg) 0,
                span = in(reg) to.span,
                zero = in(reg) to.zero,
                low = in(reg) to.low,
                mantissa = in(reg) factor.mantissa,
                left = in(reg) -(factor.shift as i32),
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                options(nostack),
            );
        }
    }

    /// Requantizes the columns of a row.
    #[inline(always)]
    pub fn scale_columns(
        sums: &[i32; COLUMNS],
        factor: Multiplier,
        to: Bounds,
        y: &mut [u8; COLUMNS],
    ) {
        scale(sums, factor, to, y);
    }
}
