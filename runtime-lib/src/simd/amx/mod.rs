//! AMX, of x86-64 server processors since 2023 (Intel): products of tiles, which are sixteen rows of
//! 64 bytes in registers of their own.
//!
//! The instructions are written out, for on stable Rust they have no names. A process must ask Linux
//! for the registers before it uses them.

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(super) mod emulated;
#[cfg(all(test, feature = "std"))]
mod tests;

use super::Avx512;
use core::arch::asm;
use core::marker::PhantomData;

/// Rows of a tile.
pub const TILE_ROWS: usize = 16;
/// Bytes of a row of a tile.
pub const TILE_BYTES: usize = 64;
/// Sums in a row of a tile, which four bytes have each.
pub const TILE_SUMS: usize = TILE_BYTES / 4;
/// Rows, and sums of a row, that are multiplied at once: those of two tiles.
pub const BLOCK: usize = 2 * TILE_ROWS;

/// AMX with products of bytes and of `bfloat16`, on a processor that has AVX-512 with VNNI and BF16, too.
#[derive(Clone, Copy, Debug)]
pub struct Amx(pub(super) Avx512);

impl Amx {
    /// The level, without a look at the processor.
    ///
    /// # Safety
    /// The processor has AMX-TILE, AMX-INT8 and AMX-BF16, AVX-512 as [`Avx512::assume`] wants it, VNNI
    /// and BF16, and the system lets the process use tiles.
    #[inline(always)]
    pub const unsafe fn assume() -> Amx {
        // SAFETY: the caller vouches for the processor.
        Amx(unsafe { Avx512::assume() })
    }

    /// Tiles that can be multiplied on this thread until they are dropped.
    #[inline(always)]
    pub fn tiles(self) -> Tiles {
        /// All eight tiles are whole.
        #[repr(C, align(64))]
        struct Shapes {
            palette: u8,
            start: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        const fn eight<T: Copy>(each: [T; 16], none: T) -> [T; 16] {
            let mut all = each;
            let mut i = 8;
            while i < 16 {
                all[i] = none;
                i += 1;
            }
            all
        }
        static SHAPES: Shapes = Shapes {
            palette: 1,
            start: 0,
            reserved: [0; 14],
            row_bytes: eight([TILE_BYTES as u16; 16], 0),
            rows: eight([TILE_ROWS as u8; 16], 0),
        };
        // SAFETY: the token; the shapes are those of the first palette.
        unsafe {
            asm!(
                "ldtilecfg [{shapes}]",
                shapes = in(reg) &raw const SHAPES,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, readonly),
            );
        }
        Tiles(PhantomData)
    }
}

/// Whether the processor has AMX, and the system lets this process use it.
#[cfg(feature = "std")]
pub(super) fn is_granted() -> bool {
    use core::arch::x86_64::__cpuid_count;
    /// Bits of what the processor says of its instructions: BF16, TILE and INT8.
    const BITS: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    // Asked only where AVX-512 was found, which the same question tells.
    if __cpuid_count(7, 0).edx & BITS != BITS {
        return false;
    }
    ask()
}

/// Asks the system for the tiles' registers.
#[cfg(all(feature = "std", target_os = "linux"))]
fn ask() -> bool {
    /// `arch_prctl`, `ARCH_REQ_XCOMP_PERM`, and the number of the tiles' data among states.
    const REQUEST: [usize; 3] = [158, 0x1023, 18];
    let refused: isize;
    // SAFETY: the call changes nothing but which registers the process may use.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") REQUEST[0] => refused,
            in("rdi") REQUEST[1],
            in("rsi") REQUEST[2],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    refused == 0
}

/// Asks the system for the tiles' registers: only of Linux it is known how.
#[cfg(all(feature = "std", not(target_os = "linux")))]
fn ask() -> bool {
    false
}

/// Tiles of this thread. When they are dropped, the processor need not keep them any more.
pub struct Tiles(PhantomData<*const ()>);

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: whoever made the tiles had the token.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, nomem, preserves_flags),
            );
        }
    }
}

/// [`BLOCK`] rows, which are multiplied with as many columns.
#[derive(Clone, Copy, Debug)]
pub struct Factors {
    /// The rows, each of [`TILE_BYTES`] for each step.
    pub left: *const u8,
    /// How many bytes a row starts behind the last.
    pub left_row: usize,
    /// For each step, [`TILE_ROWS`] rows of four bytes of each of the first [`TILE_SUMS`] columns.
    pub right: *const u8,
    /// How many bytes one of these rows starts behind the last.
    pub right_row: usize,
    /// How many bytes behind those of the first columns those of the others are.
    pub others: usize,
    /// How many steps.
    pub steps: usize,
    /// What one more step multiplies with, in place of `right` and what is `others` behind it; none where
    /// null.
    pub tail: [*const u8; 2],
    /// What is asked for meanwhile, as near as a second-level cache: at each step [`ASKED`] bytes from an
    /// address on, which then is so many bytes further.
    pub later: (*const u8, usize),
}

/// How much a step asks for: as much as comes in while it multiplies.
pub const ASKED: usize = 8 * 64;

/// Where sums start, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Sums<T> {
    /// What the sums of each of the [`BLOCK`] columns start with.
    pub start: *const T,
    /// The first sum.
    pub sums: *mut T,
    /// How many bytes a row of them starts behind the last.
    pub row: usize,
}

/// Writes a method that multiplies by an instruction.
macro_rules! multiply {
    ($(#[$doc:meta])* $name:ident, $T:ty, $multiply:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// All that [`Factors`] and [`Sums`] tell of can be read and written: [`BLOCK`] rows, and
        /// as many columns.
        #[inline(always)]
        pub unsafe fn $name(&self, of: Factors, to: Sums<$T>) {
            let mut more = [of.tail[0].addr(), of.tail[1].addr(), of.later.0.addr(), of.later.1];
            // SAFETY: whoever made the tiles had the token; the caller vouches for the memory.
            unsafe {
                asm!(
                    "tileloadd tmm0, [{later} + {step}]",
                    "tileloadd tmm1, [{later} + {step} + 64]",
                    "tileloadd tmm2, [{later} + {step}]",
                    "tileloadd tmm3, [{later} + {step} + 64]",
                    "mov {later}, [{more} + 16]",
                    "mov {step}, {right_row}",
                    "shl {step}, 4",
                    "test {steps}, {steps}",
                    "jz 3f",
                    "2:",
                    "tileloadd tmm4, [{left} + {left_row}]",
                    "tileloadd tmm6, [{right} + {right_row}]",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm5, [{left_end} + {left_row}]",
                    concat!($multiply, " tmm2, tmm5, tmm6"),
                    "tileloadd tmm7, [{others} + {right_row}]",
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    concat!($multiply, " tmm3, tmm5, tmm7"),
                    "prefetcht1 [{later} + 0]",
                    "prefetcht1 [{later} + 64]",
                    "prefetcht1 [{later} + 128]",
                    "prefetcht1 [{later} + 192]",
                    "prefetcht1 [{later} + 256]",
                    "prefetcht1 [{later} + 320]",
                    "prefetcht1 [{later} + 384]",
                    "prefetcht1 [{later} + 448]",
                    "add {later}, [{more} + 24]",
                    "add {left}, 64",
                    "add {left_end}, 64",
                    "add {right}, {step}",
                    "add {others}, {step}",
                    "dec {steps}",
                    "jnz 2b",
                    "3:",
                    // The last step's iteration, once.
                    "mov {right}, [{more}]",
                    "mov {others}, [{more} + 8]",
                    "test {right}, {right}",
                    "jz 4f",
                    "mov qword ptr [{more}], 0",
                    "inc {steps}",
                    "jmp 2b",
                    "4:",
                    "mov {left}, {row}",
                    "shl {left}, 4",
                    "add {left}, {sums}",
                    "tilestored [{sums} + {row}], tmm0",
                    "tilestored [{sums} + {row} + 64], tmm1",
                    "tilestored [{left} + {row}], tmm2",
                    "tilestored [{left} + {row} + 64], tmm3",
                    later = inout(reg) to.start => _,
                    more = in(reg) more.as_mut_ptr(),
                    sums = in(reg) to.sums,
                    row = in(reg) to.row,
                    step = inout(reg) 0usize => _,
                    left = inout(reg) of.left => _,
                    left_end = inout(reg) of.left.wrapping_add(TILE_ROWS * of.left_row) => _,
                    left_row = in(reg) of.left_row,
                    right = inout(reg) of.right => _,
                    others = inout(reg) of.right.wrapping_add(of.others) => _,
                    right_row = in(reg) of.right_row,
                    steps = inout(reg) of.steps => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

impl Tiles {
    multiply! {
        /// Writes sums of products of bytes, those of rows without a sign, those of columns with one; sums
        /// of 32 bits wrap around.
        multiply_bytes, i32, "tdpbusd"
    }
    multiply! {
        /// Writes sums of products of `bfloat16` numbers. Those that are less than normal may count as
        /// zeros.
        multiply_pairs, f32, "tdpbf16ps"
    }
}
