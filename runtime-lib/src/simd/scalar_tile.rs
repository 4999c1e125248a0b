//! A tile of sixteen scalar accumulators, for processors without vectors: they stay in the
//! registers of a floating-point unit while the loop iterates over taps and channels.
//!
//! The loops for Cortex-M are in assembly: rustc neither contracts products and sums nor loads
//! several numbers with one instruction.

/// The number of accumulators.
pub(crate) const SUMS: usize = 16;

/// For each tap and each of the `lanes` numbers from `x + tap` on, adds the number times [`SUMS`]
/// weights to the accumulators. The weights are in the order of taps, then lanes.
///
/// # Safety
///
/// From `x + tap` on, `lanes` elements can be read, and from `w` on [`SUMS`] for each of them.
#[inline(always)]
pub(crate) unsafe fn add_products(
    sums: &mut [f32; SUMS],
    w: *const f32,
    x: *const f32,
    taps: &[usize],
    lanes: usize,
) {
    if taps.is_empty() || lanes == 0 {
        return;
    }
    // SAFETY: the contract is that of this function; there are at least one tap and one lane.
    unsafe { level::add_products(sums, w, x, taps, lanes) }
}

/// For each tap, adds the [`SUMS`] numbers from `x + tap` on, each times its own weight, to the
/// accumulators. The weights are in the order of taps.
///
/// # Safety
///
/// From `x + tap` on, [`SUMS`] elements can be read, and from `w` on [`SUMS`] for each tap.
#[inline(always)]
pub(crate) unsafe fn add_pairs(
    sums: &mut [f32; SUMS],
    w: *const f32,
    x: *const f32,
    taps: &[usize],
) {
    if taps.is_empty() {
        return;
    }
    // SAFETY: the contract is that of this function; there is at least one tap.
    unsafe { level::add_pairs(sums, w, x, taps) }
}

/// Any processor.
#[cfg(not(arm_float))]
mod level {
    use super::SUMS;

    /// # Safety
    ///
    /// The contract of the function above.
    #[inline(always)]
    pub unsafe fn add_products(
        sums: &mut [f32; SUMS],
        mut w: *const f32,
        x: *const f32,
        taps: &[usize],
        lanes: usize,
    ) {
        for &tap in taps {
            for lane in 0..lanes {
                // SAFETY: by this function's contract, the number and its weights can be read.
                unsafe {
                    let x = *x.add(tap + lane);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum += x * *w.add(i);
                    }
                    w = w.add(SUMS);
                }
            }
        }
    }

    /// # Safety
    ///
    /// The contract of the function above.
    #[inline(always)]
    pub unsafe fn add_pairs(
        sums: &mut [f32; SUMS],
        mut w: *const f32,
        x: *const f32,
        taps: &[usize],
    ) {
        for &tap in taps {
            // SAFETY: by this function's contract, the numbers and their weights can be read.
            unsafe {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += *x.add(tap + i) * *w.add(i);
                }
                w = w.add(SUMS);
            }
        }
    }
}

/// A Cortex-M with a floating-point unit.
#[cfg(all(arm_float, not(arm_vectors)))]
mod level {
    use super::SUMS;
    use core::arch::asm;

    /// # Safety
    ///
    /// The contract of the function above, with at least one tap and one lane.
    #[inline(always)]
    pub unsafe fn add_products(
        sums: &mut [f32; SUMS],
        w: *const f32,
        x: *const f32,
        taps: &[usize],
        lanes: usize,
    ) {
        let taps = taps.as_ptr_range();
        // SAFETY: the instructions read the elements of this function's contract, and write only
        // `sums`.
        unsafe {
            asm!(
                "vldmia {sums}, {{s0-s15}}",
                "2:",
                "ldr {from}, [{tap}], #4",
                "add {from}, {x}, {from}, lsl #2",
                "mov {left}, {lanes}",
                "3:",
                "vldmia {w}!, {{s16-s23}}",
                "vldmia {from}!, {{s24}}",
                "vfma.f32 s0, s16, s24",
                "vfma.f32 s1, s17, s24",
                "vfma.f32 s2, s18, s24",
                "vfma.f32 s3, s19, s24",
                "vfma.f32 s4, s20, s24",
                "vfma.f32 s5, s21, s24",
                "vfma.f32 s6, s22, s24",
                "vfma.f32 s7, s23, s24",
                "vldmia {w}!, {{s16-s23}}",
                "vfma.f32 s8, s16, s24",
                "vfma.f32 s9, s17, s24",
                "vfma.f32 s10, s18, s24",
                "vfma.f32 s11, s19, s24",
                "vfma.f32 s12, s20, s24",
                "vfma.f32 s13, s21, s24",
                "vfma.f32 s14, s22, s24",
                "vfma.f32 s15, s23, s24",
                "subs {left}, {left}, #1",
                "bne 3b",
                "cmp {tap}, {end}",
                "bne 2b",
                "vstmia {sums}, {{s0-s15}}",
                sums = in(reg) sums.as_mut_ptr(),
                w = inout(reg) w => _,
                x = in(reg) x,
                tap = inout(reg) taps.start => _,
                end = in(reg) taps.end,
                lanes = in(reg) lanes,
                from = out(reg) _,
                left = out(reg) _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    ///
    /// The contract of the function above, with at least one tap.
    #[inline(always)]
    pub unsafe fn add_pairs(sums: &mut [f32; SUMS], w: *const f32, x: *const f32, taps: &[usize]) {
        let taps = taps.as_ptr_range();
        // SAFETY: the instructions read the elements of this function's contract, and write only
        // `sums`.
        unsafe {
            asm!(
                "vldmia {sums}, {{s0-s15}}",
                "2:",
                "ldr {from}, [{tap}], #4",
                "add {from}, {x}, {from}, lsl #2",
                "vldmia {w}!, {{s16-s23}}",
                "vldmia {from}!, {{s24-s31}}",
                "vfma.f32 s0, s16, s24",
                "vfma.f32 s1, s17, s25",
                "vfma.f32 s2, s18, s26",
                "vfma.f32 s3, s19, s27",
                "vfma.f32 s4, s20, s28",
                "vfma.f32 s5, s21, s29",
                "vfma.f32 s6, s22, s30",
                "vfma.f32 s7, s23, s31",
                "vldmia {w}!, {{s16-s23}}",
                "vldmia {from}!, {{s24-s31}}",
                "vfma.f32 s8, s16, s24",
                "vfma.f32 s9, s17, s25",
                "vfma.f32 s10, s18, s26",
                "vfma.f32 s11, s19, s27",
                "vfma.f32 s12, s20, s28",
                "vfma.f32 s13, s21, s29",
                "vfma.f32 s14, s22, s30",
                "vfma.f32 s15, s23, s31",
                "cmp {tap}, {end}",
                "bne 2b",
                "vstmia {sums}, {{s0-s15}}",
                sums = in(reg) sums.as_mut_ptr(),
                w = inout(reg) w => _,
                x = in(reg) x,
                tap = inout(reg) taps.start => _,
                end = in(reg) taps.end,
                from = out(reg) _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
                out("s30") _, out("s31") _,
                options(nostack),
            );
        }
    }
}

/// A Cortex-M with Helium, whose vectors have four lanes.
#[cfg(arm_vectors)]
mod level {
    use super::SUMS;
    use core::arch::asm;

    /// # Safety
    ///
    /// The contract of the function above, with at least one tap and one lane.
    #[inline(always)]
    pub unsafe fn add_products(
        sums: &mut [f32; SUMS],
        w: *const f32,
        x: *const f32,
        taps: &[usize],
        lanes: usize,
    ) {
        let taps = taps.as_ptr_range();
        // SAFETY: the instructions read the elements of this function's contract, and write only
        // `sums`.
        unsafe {
            asm!(
                "vldmia {sums}, {{s0-s15}}",
                "2:",
                "ldr {from}, [{tap}], #4",
                "add {from}, {x}, {from}, lsl #2",
                "mov {left}, {lanes}",
                "3:",
                "ldr {number}, [{from}], #4",
                "vldrw.u32 q4, [{w}], #16",
                "vldrw.u32 q5, [{w}], #16",
                "vfma.f32 q0, q4, {number}",
                "vldrw.u32 q6, [{w}], #16",
                "vfma.f32 q1, q5, {number}",
                "vldrw.u32 q7, [{w}], #16",
                "vfma.f32 q2, q6, {number}",
                "vfma.f32 q3, q7, {number}",
                "subs {left}, {left}, #1",
                "bne 3b",
                "cmp {tap}, {end}",
                "bne 2b",
                "vstmia {sums}, {{s0-s15}}",
                sums = in(reg) sums.as_mut_ptr(),
                w = inout(reg) w => _,
                x = in(reg) x,
                tap = inout(reg) taps.start => _,
                end = in(reg) taps.end,
                lanes = in(reg) lanes,
                from = out(reg) _,
                left = out(reg) _,
                number = out(reg) _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
                out("s30") _, out("s31") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    ///
    /// The contract of the function above, with at least one tap.
    #[inline(always)]
    pub unsafe fn add_pairs(sums: &mut [f32; SUMS], w: *const f32, x: *const f32, taps: &[usize]) {
        let taps = taps.as_ptr_range();
        // SAFETY: the instructions read the elements of this function's contract, and write only
        // `sums`.
        unsafe {
            asm!(
                "vldmia {sums}, {{s0-s15}}",
                "2:",
                "ldr {from}, [{tap}], #4",
                "add {from}, {x}, {from}, lsl #2",
                "vldrw.u32 q4, [{w}], #16",
                "vldrw.u32 q5, [{from}], #16",
                "vfma.f32 q0, q4, q5",
                "vldrw.u32 q4, [{w}], #16",
                "vldrw.u32 q5, [{from}], #16",
                "vfma.f32 q1, q4, q5",
                "vldrw.u32 q4, [{w}], #16",
                "vldrw.u32 q5, [{from}], #16",
                "vfma.f32 q2, q4, q5",
                "vldrw.u32 q4, [{w}], #16",
                "vldrw.u32 q5, [{from}], #16",
                "vfma.f32 q3, q4, q5",
                "cmp {tap}, {end}",
                "bne 2b",
                "vstmia {sums}, {{s0-s15}}",
                sums = in(reg) sums.as_mut_ptr(),
                w = inout(reg) w => _,
                x = in(reg) x,
                tap = inout(reg) taps.start => _,
                end = in(reg) taps.end,
                from = out(reg) _,
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _, out("s17") _,
                out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                options(nostack),
            );
        }
    }
}
