//! AMX, of x86-64 server processors since 2023 (Intel): products of tiles, which are sixteen rows
//! of 64 bytes in dedicated registers.
//!
//! The instructions are in inline assembly, because stable Rust has no intrinsics for them. A
//! process must request the registers from Linux before it uses them.

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(super) mod emulated;
#[cfg(all(test, feature = "std"))]
mod tests;

use super::Avx512;
use core::arch::asm;
use core::marker::PhantomData;

/// The rows of a tile.
pub const TILE_ROWS: usize = 16;
/// The bytes of a row of a tile.
pub const TILE_BYTES: usize = 64;
/// The accumulators in a row of a tile, of four bytes each.
pub const TILE_SUMS: usize = TILE_BYTES / 4;
/// The rows, and the columns, that are multiplied at once: those of two tiles.
pub const BLOCK: usize = 2 * TILE_ROWS;

/// The token of AMX with products of int8 and `bfloat16`, on a processor that also has AVX-512 with
/// VNNI and BF16.
#[derive(Clone, Copy, Debug)]
pub struct Amx(pub(super) Avx512);

impl Amx {
    /// Creates the token without checking the processor.
    ///
    /// # Safety
    ///
    /// The processor has AMX-TILE, AMX-INT8 and AMX-BF16, VNNI, BF16 and the extensions that
    /// [`Avx512::assume`] requires, and the system lets the process use tiles.
    #[inline(always)]
    pub const unsafe fn assume() -> Amx {
        // SAFETY: the contract includes that of `Avx512::assume`.
        Amx(unsafe { Avx512::assume() })
    }

    /// Configures the tiles of this thread, until the result is dropped.
    #[inline(always)]
    pub fn tiles(self) -> Tiles {
        /// The configuration: eight full tiles.
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
        // SAFETY: `self` is a token, and the shapes are valid for palette 1.
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

/// Returns whether the processor has AMX and the system lets this process use it.
#[cfg(feature = "std")]
pub(super) fn is_granted() -> bool {
    use core::arch::x86_64::__cpuid_count;
    /// The bits of BF16, TILE and INT8 in CPUID leaf 7.
    const BITS: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    // The caller detected AVX-512, so leaf 7 exists.
    if __cpuid_count(7, 0).edx & BITS != BITS {
        return false;
    }
    ask()
}

/// Requests the tile registers from the system.
#[cfg(all(feature = "std", target_os = "linux"))]
fn ask() -> bool {
    /// `arch_prctl`, `ARCH_REQ_XCOMP_PERM`, and the state component of tile data.
    const REQUEST: [usize; 3] = [158, 0x1023, 18];
    let refused: isize;
    // SAFETY: the call only changes which registers the process may use.
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

/// Returns `false`: no other system has a known way to request the tile registers.
#[cfg(all(feature = "std", not(target_os = "linux")))]
fn ask() -> bool {
    false
}

/// The configured tiles of this thread. Dropping them releases their state.
pub struct Tiles(PhantomData<*const ()>);

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `Tiles` is only created from a token.
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

/// The operands of a product of [`BLOCK`] rows and as many columns.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The rows, of [`TILE_BYTES`] for each step.
    pub left: *const u8,
    /// The stride of rows, in bytes.
    pub left_row: usize,
    /// For each step, [`TILE_ROWS`] rows of four bytes of each of the first [`TILE_SUMS`] columns.
    pub right: *const u8,
    /// The stride of the rows of `right`, in bytes.
    pub right_row: usize,
    /// The distance from the first tile of columns to the second, in bytes.
    pub second: usize,
    /// The number of steps.
    pub steps: usize,
    /// The operands of one more step, which replace `right` and the columns `second` behind it;
    /// null for none.
    pub tail: [*const u8; 2],
    /// The address to prefetch into the L2 cache, [`PREFETCH_BYTES`] bytes at each step, and its
    /// increment for each step, in bytes.
    pub prefetch: (*const u8, usize),
}

/// The bytes that a step prefetches: as many as arrive while it multiplies.
pub const PREFETCH_BYTES: usize = 8 * 64;

/// The initial accumulators, and the memory for the results.
#[derive(Clone, Copy, Debug)]
pub struct Accumulators<T> {
    /// The initial accumulator of each of the [`BLOCK`] columns.
    pub start: *const T,
    /// The first result.
    pub sums: *mut T,
    /// The stride of the rows of results, in bytes.
    pub row: usize,
}

/// Defines a method that multiplies by an instruction.
macro_rules! multiply {
    ($(#[$doc:meta])* $name:ident, $T:ty, $multiply:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The memory of [`Operands`] can be read and that of [`Accumulators`] can be written:
        /// [`BLOCK`] rows and as many columns.
        #[inline(always)]
        pub unsafe fn $name(&self, of: Operands, to: Accumulators<$T>) {
            let ([tail, tail_second], (prefetch, increment)) = (of.tail, of.prefetch);
            let mut more = [tail.addr(), tail_second.addr(), prefetch.addr(), increment];
            // SAFETY: `Tiles` is only created from a token; by this function's contract, the memory
            // can be read and written.
            unsafe {
                asm!(
                    "tileloadd tmm0, [{prefetch} + {step}]",
                    "tileloadd tmm1, [{prefetch} + {step} + 64]",
                    "tileloadd tmm2, [{prefetch} + {step}]",
                    "tileloadd tmm3, [{prefetch} + {step} + 64]",
                    "mov {prefetch}, [{more} + 16]",
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
                    "tileloadd tmm7, [{second} + {right_row}]",
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    concat!($multiply, " tmm3, tmm5, tmm7"),
                    "prefetcht1 [{prefetch} + 0]",
                    "prefetcht1 [{prefetch} + 64]",
                    "prefetcht1 [{prefetch} + 128]",
                    "prefetcht1 [{prefetch} + 192]",
                    "prefetcht1 [{prefetch} + 256]",
                    "prefetcht1 [{prefetch} + 320]",
                    "prefetcht1 [{prefetch} + 384]",
                    "prefetcht1 [{prefetch} + 448]",
                    "add {prefetch}, [{more} + 24]",
                    "add {left}, 64",
                    "add {left_end}, 64",
                    "add {right}, {step}",
                    "add {second}, {step}",
                    "dec {steps}",
                    "jnz 2b",
                    "3:",
                    // The tail's step, executed once.
                    "mov {right}, [{more}]",
                    "mov {second}, [{more} + 8]",
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
                    prefetch = inout(reg) to.start => _,
                    more = in(reg) more.as_mut_ptr(),
                    sums = in(reg) to.sums,
                    row = in(reg) to.row,
                    step = inout(reg) 0usize => _,
                    left = inout(reg) of.left => _,
                    left_end = inout(reg) of.left.wrapping_add(TILE_ROWS * of.left_row) => _,
                    left_row = in(reg) of.left_row,
                    right = inout(reg) of.right => _,
                    second = inout(reg) of.right.wrapping_add(of.second) => _,
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
        /// Computes products of bytes, unsigned in rows and signed in columns. The 32-bit
        /// accumulators wrap around.
        multiply_bytes, i32, "tdpbusd"
    }
    multiply! {
        /// Computes products of `bfloat16` numbers. Subnormal numbers may count as zeros.
        multiply_pairs, f32, "tdpbf16ps"
    }
}
