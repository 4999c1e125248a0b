//! Depthwise accumulators of neighboring channels in general-purpose registers: four at a time, or
//! eight on a Cortex-M with Helium.

use crate::loops::bounds::places;

/// The number of channels that are accumulated at once.
pub(crate) const CHANNELS: usize = if cfg!(arm_vectors) { 8 } else { 4 };

/// The largest size of a [`Tap`] on any processor, in bytes.
pub(crate) const TAP_BYTES: usize = 12;

/// An element of a kernel: the offset of its pixel in the window, and its weights for neighboring
/// channels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Tap {
    start: u32,
    weights: level::Weights,
}

const _: () = assert!(size_of::<Tap>() <= TAP_BYTES && align_of::<Tap>() == 4);

impl Tap {
    /// Creates a tap from signed weights.
    pub fn new(start: u32, weights: [u8; CHANNELS]) -> Tap {
        Tap { start, weights: level::weights(weights) }
    }

    /// Returns the aligned part of `bytes` as memory for taps.
    pub fn memory(bytes: &mut [u8]) -> &mut [Tap] {
        // SAFETY: all bit patterns are valid taps, and taps have no padding.
        unsafe { bytes.align_to_mut().1 }
    }
}

/// The pixels that windows read of some channels, and their weights.
pub(crate) struct Taps<'a> {
    x: &'a [u8],
    taps: &'a [Tap],
    /// The number of channels.
    n: usize,
    /// The number of offsets at which a whole window is inside `x`.
    places: usize,
}

impl<'a> Taps<'a> {
    /// Creates the operands of the first `n` channels at each tap; `x` is unsigned.
    pub fn new(x: &'a [u8], taps: &'a [Tap], n: usize) -> Taps<'a> {
        let reach = taps.iter().map(|tap| (tap.start as usize).saturating_add(n)).max();
        Taps { x, taps, n: n.min(CHANNELS), places: places(x, reach.unwrap_or(0)) }
    }

    /// Adds the products of the window at `at` to the accumulators, wrapping.
    #[inline(always)]
    pub fn add_products(&self, at: usize, sums: &mut [i32; CHANNELS]) {
        assert!(at < self.places);
        if self.n < CHANNELS {
            self.add_few(at, sums);
        } else if !self.taps.is_empty() {
            // SAFETY: there is a tap, and `at < places`, so the channels of each tap are inside
            // `x`.
            unsafe { level::add_products(sums, self.x.as_ptr().add(at), self.taps) }
        }
    }

    /// Adds the products of fewer than [`CHANNELS`] channels.
    #[inline(never)]
    fn add_few(&self, at: usize, sums: &mut [i32; CHANNELS]) {
        for tap in self.taps {
            let x = self.x[at + tap.start as usize..][..self.n].iter();
            for (i, (sum, &x)) in sums.iter_mut().zip(x).enumerate() {
                *sum = sum.wrapping_add(i32::from(x) * level::weight(&tap.weights, i));
            }
        }
    }
}

/// Any processor.
#[cfg(not(arm_signals))]
mod level {
    use super::{CHANNELS, Tap};

    pub type Weights = [u8; CHANNELS];

    #[inline(always)]
    pub fn weights(weights: [u8; CHANNELS]) -> Weights {
        weights
    }

    #[inline(always)]
    pub fn weight(weights: &Weights, i: usize) -> i32 {
        i32::from(weights[i] as i8)
    }

    /// # Safety
    ///
    /// [`CHANNELS`] bytes can be read at each tap from `x` on.
    #[inline(always)]
    pub unsafe fn add_products(sums: &mut [i32; CHANNELS], x: *const u8, taps: &[Tap]) {
        let mut all = *sums;
        for tap in taps {
            // SAFETY: by this function's contract, the channels can be read; an array of bytes
            // needs no alignment.
            let x = unsafe { x.add(tap.start as usize).cast::<[u8; CHANNELS]>().read() };
            for (i, (sum, x)) in all.iter_mut().zip(x).enumerate() {
                *sum = sum.wrapping_add(i32::from(x) * weight(&tap.weights, i));
            }
        }
        *sums = all;
    }
}

/// A Cortex-M with DSP instructions: the channels at even and at odd positions are pairs.
#[cfg(all(arm_signals, not(arm_vectors)))]
mod level {
    use super::{super::Quad, CHANNELS, Tap};
    use core::arch::asm;

    pub type Weights = Quad;

    #[inline(always)]
    pub fn weights(weights: [u8; CHANNELS]) -> Weights {
        Quad::signed(u32::from_ne_bytes(weights))
    }

    #[inline(always)]
    pub fn weight(weights: &Weights, i: usize) -> i32 {
        weights.signed_byte(i)
    }

    /// # Safety
    ///
    /// [`CHANNELS`] bytes can be read at each tap from `x` on, and there is a tap.
    #[inline(always)]
    pub unsafe fn add_products(sums: &mut [i32; CHANNELS], x: *const u8, taps: &[Tap]) {
        let [a, b, c, d] = sums;
        let taps = taps.as_ptr_range();
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read the
        // taps, which are aligned, and the word of each by this function's contract.
        unsafe {
            asm!(
                "2:",
                "ldm {tap}!, {{r1, r2, r3}}",
                "ldr {odd}, [{x}, r1]",
                "uxtb16 {even}, {odd}",
                "uxtb16 {odd}, {odd}, ror #8",
                "smlabb {a}, {even}, r2, {a}",
                "smlabb {b}, {odd}, r3, {b}",
                "smlatt {c}, {even}, r2, {c}",
                "smlatt {d}, {odd}, r3, {d}",
                "cmp {tap}, {end}",
                "bne 2b",
                a = inout(reg) *a,
                b = inout(reg) *b,
                c = inout(reg) *c,
                d = inout(reg) *d,
                x = in(reg) x,
                tap = inout(reg) taps.start => _,
                end = in(reg) taps.end,
                even = out(reg) _,
                odd = out(reg) _,
                out("r1") _,
                out("r2") _,
                out("r3") _,
                options(readonly, nostack),
            );
        }
    }
}

/// A Cortex-M with Helium: bytes are widened to 16 bits, and the products at even and at odd
/// positions are accumulated separately.
#[cfg(arm_vectors)]
mod level {
    use super::{CHANNELS, Tap};
    use core::arch::asm;

    pub type Weights = [u8; CHANNELS];

    #[inline(always)]
    pub fn weights(weights: [u8; CHANNELS]) -> Weights {
        weights
    }

    #[inline(always)]
    pub fn weight(weights: &Weights, i: usize) -> i32 {
        i32::from(weights[i] as i8)
    }

    /// # Safety
    ///
    /// [`CHANNELS`] bytes can be read at each tap from `x` on, and there is a tap.
    #[inline(always)]
    pub unsafe fn add_products(sums: &mut [i32; CHANNELS], x: *const u8, taps: &[Tap]) {
        // SAFETY: `build.rs` sets the `cfg` only if the target has the instructions, which read the
        // taps and the eight bytes of each by this function's contract, and read and write `sums`.
        unsafe {
            asm!(
                "vld20.32 {{q2, q3}}, [{sums}]",
                "vld21.32 {{q2, q3}}, [{sums}]",
                "dls lr, lr",
                "2:",
                // Widening loads need an address in one of the first eight registers.
                "ldr r1, [r0], #4",
                "vldrb.s16 q1, [r0], #8",
                "add r1, r1, {x}",
                "vldrb.u16 q0, [r1]",
                "vmullb.s16 q4, q0, q1",
                "vmullt.s16 q0, q0, q1",
                "vadd.i32 q2, q2, q4",
                "vadd.i32 q3, q3, q0",
                "le lr, 2b",
                "vst20.32 {{q2, q3}}, [{sums}]",
                "vst21.32 {{q2, q3}}, [{sums}]",
                inout("r0") taps.as_ptr() => _,
                out("r1") _,
                inout("lr") taps.len() => _,
                x = in(reg) x,
                sums = in(reg) sums.as_mut_ptr(),
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _,
                out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
                out("s12") _, out("s13") _, out("s14") _, out("s15") _, out("s16") _,
                out("s17") _, out("s18") _, out("s19") _,
                options(nostack),
            );
        }
    }
}
