//! Dot products of contiguous numbers, for small programs.

/// Returns `start` plus the dot product of `x` and `w`, up to the shorter length.
#[inline(never)]
pub(crate) fn dot(x: &[f32], w: &[f32], start: f32) -> f32 {
    level::dot(x, w) + start
}

/// Any processor.
#[cfg(not(arm_float))]
mod level {
    use crate::simd::HAS_VECTORS;

    /// The number of independent accumulators.
    const LANES: usize = if HAS_VECTORS { 16 } else { 1 };

    #[inline(always)]
    pub fn dot(x: &[f32], w: &[f32]) -> f32 {
        let ((many, x), (weights, w)) = (x.as_chunks::<LANES>(), w.as_chunks::<LANES>());
        let mut sums = [0.0; LANES];
        for (x, w) in many.iter().zip(weights) {
            for (sum, (x, w)) in sums.iter_mut().zip(x.iter().zip(w)) {
                *sum += x * w;
            }
        }
        let rest: f32 = x.iter().zip(w).map(|(x, w)| x * w).sum();
        sums.into_iter().sum::<f32>() + rest
    }
}

/// A Cortex-M with a floating-point unit.
#[cfg(all(arm_float, not(arm_vectors)))]
mod level {
    use core::arch::asm;

    #[inline(always)]
    pub fn dot(x: &[f32], w: &[f32]) -> f32 {
        let sum: u32;
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read `n`
        // numbers of each slice, the shorter length.
        unsafe {
            asm!(
                "vmov s0, {sum}",
                "vmov s1, {sum}",
                "vmov s2, {sum}",
                "vmov s3, {sum}",
                "subs {n}, {n}, #8",
                "blo 3f",
                "2:",
                "vldmia {x}!, {{s8-s15}}",
                "vldmia {w}!, {{s16-s23}}",
                "vfma.f32 s0, s8, s16",
                "vfma.f32 s1, s9, s17",
                "vfma.f32 s2, s10, s18",
                "vfma.f32 s3, s11, s19",
                "vfma.f32 s0, s12, s20",
                "vfma.f32 s1, s13, s21",
                "vfma.f32 s2, s14, s22",
                "vfma.f32 s3, s15, s23",
                "subs {n}, {n}, #8",
                "bhs 2b",
                "3:",
                "adds {n}, {n}, #8",
                "beq 5f",
                "4:",
                "vldmia {x}!, {{s8}}",
                "vldmia {w}!, {{s16}}",
                "subs {n}, {n}, #1",
                "vfma.f32 s0, s8, s16",
                "bne 4b",
                "5:",
                "vadd.f32 s0, s0, s1",
                "vadd.f32 s2, s2, s3",
                "vadd.f32 s0, s0, s2",
                "vmov {sum}, s0",
                n = inout(reg) x.len().min(w.len()) => _,
                x = inout(reg) x.as_ptr() => _,
                w = inout(reg) w.as_ptr() => _,
                sum = inout(reg) 0 => sum,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _,
                out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _,
                out("s14") _, out("s15") _, out("s16") _, out("s17") _, out("s18") _, out("s19") _,
                out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                options(pure, readonly, nostack),
            );
        }
        f32::from_bits(sum)
    }
}

/// A Cortex-M with Helium, whose vectors have four lanes.
#[cfg(arm_vectors)]
mod level {
    use core::arch::asm;

    #[inline(always)]
    pub fn dot(x: &[f32], w: &[f32]) -> f32 {
        let sum: u32;
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions. The
        // tail-predicated loop reads `n` numbers of each slice, the shorter length.
        unsafe {
            asm!(
                "vmov.i32 q0, #0",
                "wlstp.32 lr, lr, 3f",
                "2:",
                "vldrw.u32 q1, [{x}], #16",
                "vldrw.u32 q2, [{w}], #16",
                "vfma.f32 q0, q1, q2",
                "letp lr, 2b",
                "3:",
                "vadd.f32 s0, s0, s1",
                "vadd.f32 s2, s2, s3",
                "vadd.f32 s0, s0, s2",
                "vmov {sum}, s0",
                inout("lr") x.len().min(w.len()) => _,
                x = inout(reg) x.as_ptr() => _,
                w = inout(reg) w.as_ptr() => _,
                sum = out(reg) sum,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                options(pure, readonly, nostack),
            );
        }
        f32::from_bits(sum)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::dot;
    use std::vec::Vec;

    #[test]
    fn products_are_summed_up_whatever_their_number() {
        for n in [0, 1, 7, 8, 9, 16, 33, 100] {
            let x: Vec<f32> = (0..n as i16).map(|i| f32::from(i % 13 - 6)).collect();
            let w: Vec<f32> = (0..n as i16 + 2).map(|i| f32::from(i % 7 - 3)).collect();
            let wanted: f32 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
            assert_eq!(dot(&x, &w, 0.5), wanted + 0.5, "{n}");
        }
    }
}
