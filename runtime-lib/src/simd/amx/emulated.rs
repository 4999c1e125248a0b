//! Emulates AMX instructions on processors without them, so that tests can run the kernels that use
//! them.
//!
//! The instructions are illegal on these processors, which the operating system reports by the
//! signal `SIGILL`. The handler decodes the instruction, executes it, and continues behind it.

use super::{TILE_BYTES, TILE_ROWS, TILE_SUMS};
use core::arch::x86_64::{
    _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
};
use core::cell::UnsafeCell;
use core::mem::zeroed;
use core::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use libc::{c_int, c_void, greg_t, siginfo_t, ucontext_t};
use std::sync::Once;

/// Installs the handler for this process. Its processor has AVX-512 with VNNI, and FMA.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: a zeroed `sigaction` blocks no signals; `handle` has the signature that
        // `SA_SIGINFO` requires.
        let failed = unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, null_mut())
        };
        assert_eq!(failed, 0, "no handler for illegal instructions");
    });
}

/// A full tile, in units of four bytes.
type Tile = [[u32; TILE_SUMS]; TILE_ROWS];

/// The tiles, once they are configured.
type State = Option<[Tile; 8]>;

std::thread_local! {
    /// The value needs no destructor, so the handler may access it at any time.
    static TILES: UnsafeCell<State> = const { UnsafeCell::new(None) };
}

/// Executes the illegal instruction and the AMX instructions that directly follow it, which saves
/// their signals.
extern "C" fn handle(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the interrupted thread's context, which nothing else accesses.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let mut is_known = false;
    let numbered = REGISTERS.map(|at| registers[at as usize] as usize);
    let next = &mut registers[libc::REG_RIP as usize];
    // SAFETY: the instruction pointer is at code that the thread was about to execute.
    while let Some((instruction, end)) = unsafe { Code::at(*next as usize) }.decode(&numbered) {
        // SAFETY: the tiles belong to this thread, which the signal interrupted; the code that
        // contains the instruction guarantees its memory.
        if TILES.with(|tiles| unsafe { instruction.run(&mut *tiles.get()) }).is_none() {
            break;
        }
        *next = end as greg_t;
        is_known = true;
    }
    if !is_known {
        // SAFETY: this restores the default action, so the instruction is retried and ends the
        // process.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
    }
}

/// The registers in `gregs`, in the order of their numbers in instructions.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// An AMX instruction. Tiles are numbers.
#[derive(Debug, PartialEq)]
enum Instruction {
    /// Configures the tiles with the shapes at an address.
    Configure(usize),
    Release,
    Load(usize, Rows),
    Store(usize, Rows),
    /// Adds the products of unsigned bytes of one tile's rows and signed bytes of another's columns
    /// to a tile.
    AddBytes([usize; 3]),
    /// Adds the products of pairs of `bfloat16` numbers to a tile.
    AddPairs([usize; 3]),
}

/// The address of the first row of a tile, and the stride of rows in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rows {
    at: usize,
    apart: usize,
}

impl Rows {
    fn addresses(self) -> impl Iterator<Item = usize> {
        (0..TILE_ROWS).map(move |row| self.at.wrapping_add(row.wrapping_mul(self.apart)))
    }

    /// Loads a tile.
    ///
    /// # Safety
    ///
    /// The rows can be read.
    unsafe fn load(self, tile: &mut Tile) {
        for (row, at) in tile.iter_mut().zip(self.addresses()) {
            // SAFETY: by this function's contract, the row can be read.
            *row = unsafe { with_exposed_provenance::<[u32; TILE_SUMS]>(at).read_unaligned() };
        }
    }

    /// Stores a tile.
    ///
    /// # Safety
    ///
    /// The rows can be written.
    unsafe fn store(self, tile: &Tile) {
        for (row, at) in tile.iter().zip(self.addresses()) {
            let to = with_exposed_provenance_mut::<[u32; TILE_SUMS]>(at);
            // SAFETY: by this function's contract, the row can be written.
            unsafe { to.write_unaligned(*row) };
        }
    }
}

/// Machine code. It is read byte by byte, because memory may end after the last instruction.
struct Code(*const u8);

impl Code {
    /// Wraps the code at an address.
    ///
    /// # Safety
    ///
    /// An instruction starts at the address.
    unsafe fn at(address: usize) -> Code {
        Code(with_exposed_provenance(address))
    }

    fn byte(&mut self) -> u8 {
        // SAFETY: `decode` reads only bytes that belong to an instruction with the bytes read so
        // far.
        let byte = unsafe { self.0.read() };
        self.0 = self.0.wrapping_add(1);
        byte
    }

    fn long(&mut self) -> i32 {
        i32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    /// Decodes an AMX instruction; returns it and the address of the next one.
    fn decode(mut self, registers: &[usize; 16]) -> Option<(Instruction, usize)> {
        /// The prefix of all AMX instructions, and their opcode map.
        const VEX: u8 = 0xc4;
        const TABLE: u8 = 2;
        if self.byte() != VEX {
            return None;
        }
        let first = self.byte();
        if first & 0x1f != TABLE {
            return None;
        }
        let (second, opcode, form) = (self.byte(), self.byte(), self.byte());
        // The prefix's high bits of register numbers are inverted.
        let [reg, index, base] = [7, 6, 5].map(|bit| usize::from(!first >> bit & 1) << 3);
        let (tile, other) = (reg | usize::from(form >> 3 & 7), base | usize::from(form & 7));
        let third = usize::from(!second >> 3 & 15);
        let is_memory = form >> 6 != 3;
        let instruction = match (opcode, second & 0x87) {
            (0x49, 0) if form == 0xc0 && third == 0 => Instruction::Release,
            (0x49, 0) if is_memory && tile == 0 && third == 0 => {
                let Rows { at, apart } = self.memory(form, [index, base], registers);
                Instruction::Configure(at.wrapping_add(apart))
            }
            (0x4b, kind @ (2 | 3)) if is_memory && form & 7 == 4 && third == 0 => {
                let rows = self.memory(form, [index, base], registers);
                if kind == 3 {
                    Instruction::Load(tile, rows)
                } else {
                    Instruction::Store(tile, rows)
                }
            }
            (0x5e, 1) if !is_memory => Instruction::AddBytes([tile, other, third]),
            (0x5c, 2) if !is_memory => Instruction::AddPairs([tile, other, third]),
            _ => return None,
        };
        Some((instruction, self.0.addr()))
    }

    /// Decodes a memory operand: an address, and the index part, which tiles use as the stride of
    /// rows.
    fn memory(&mut self, form: u8, [index, base]: [usize; 2], registers: &[usize; 16]) -> Rows {
        /// The values that mean: a SIB byte follows, no index register, and no base register.
        const MORE: u8 = 4;
        const NONE: usize = 4;
        const PLAIN: u8 = 5;
        let (mode, mut short, mut apart) = (form >> 6, form & 7, 0);
        if short == MORE {
            let more = self.byte();
            let index = index | usize::from(more >> 3 & 7);
            apart = if index == NONE { 0 } else { registers[index] << (more >> 6) };
            short = more & 7;
        }
        let is_plain = mode == 0 && short == PLAIN;
        let offset = match mode {
            1 => i32::from(self.byte() as i8),
            0 if !is_plain => 0,
            _ => self.long(),
        };
        let start = match is_plain {
            false => registers[base | usize::from(short)],
            // Without a SIB byte, the offset is relative to the next instruction.
            true if form & 7 == PLAIN => self.0.addr(),
            true => 0,
        };
        Rows { at: start.wrapping_add_signed(offset as isize), apart }
    }
}

impl Instruction {
    /// Executes the instruction; `None` if a processor would reject it.
    ///
    /// # Safety
    ///
    /// The memory operand can be read and written.
    unsafe fn run(self, tiles: &mut State) -> Option<()> {
        match self {
            Instruction::Configure(at) => {
                // SAFETY: by this function's contract, the configuration can be read.
                let shapes = unsafe { with_exposed_provenance::<[u8; 64]>(at).read_unaligned() };
                *tiles = (shapes == whole()).then_some([[[0; TILE_SUMS]; TILE_ROWS]; 8]);
                tiles.as_ref()?;
            }
            Instruction::Release => *tiles = None,
            // SAFETY: by this function's contract, the rows can be read.
            Instruction::Load(tile, rows) => unsafe { rows.load(tiles.as_mut()?.get_mut(tile)?) },
            // SAFETY: by this function's contract, the rows can be written.
            Instruction::Store(tile, rows) => unsafe { rows.store(tiles.as_ref()?.get(tile)?) },
            // Processors also require three different tiles.
            Instruction::AddBytes(three) => {
                let [sums, left, right] = tiles.as_mut()?.get_disjoint_mut(three).ok()?;
                // SAFETY: `install` requires a processor with AVX-512 and VNNI.
                unsafe { add_bytes(sums, left, right) };
            }
            Instruction::AddPairs(three) => {
                let [sums, left, right] = tiles.as_mut()?.get_disjoint_mut(three).ok()?;
                // SAFETY: `install` requires a processor with AVX-512 and FMA.
                unsafe { add_pairs(sums, left, right) };
            }
        }
        Some(())
    }
}

/// Returns the configuration of eight full tiles, the only one that kernels use.
fn whole() -> [u8; 64] {
    let mut shapes = [0; 64];
    shapes[0] = 1;
    shapes[16..32].as_chunks_mut().0.fill((TILE_BYTES as u16).to_le_bytes());
    shapes[48..56].fill(TILE_ROWS as u8);
    shapes
}

/// Adds the products of four unsigned bytes with four signed ones.
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_bytes(sums: &mut Tile, left: &Tile, right: &Tile) {
    for (sums, left) in sums.iter_mut().zip(left) {
        // SAFETY: a row is as long as a vector.
        let mut all = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
        for (&quad, row) in left.iter().zip(right) {
            // SAFETY: a row is as long as a vector.
            let quads = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
            all = _mm512_dpbusd_epi32(all, _mm512_set1_epi32(quad.cast_signed()), quads);
        }
        // SAFETY: a row is as long as a vector.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), all) };
    }
}

/// Adds the products of pairs as Intel's manual specifies: the products of first numbers and those
/// of second numbers are accumulated separately, and the sum of both is added.
#[target_feature(enable = "avx512f,fma")]
fn add_pairs(sums: &mut Tile, left: &Tile, right: &Tile) {
    let mut numbers = [[[0.0; TILE_SUMS]; 2]; TILE_ROWS];
    for (numbers, row) in numbers.iter_mut().zip(right) {
        for (n, &pair) in row.iter().enumerate() {
            [numbers[0][n], numbers[1][n]] = split(pair);
        }
    }
    for (sums, left) in sums.iter_mut().zip(left) {
        let mut parts = [[0.0; TILE_SUMS]; 2];
        for (&pair, right) in left.iter().zip(&numbers) {
            for (part, (x, right)) in parts.iter_mut().zip(split(pair).into_iter().zip(right)) {
                for (sum, &y) in part.iter_mut().zip(right) {
                    *sum = flush_subnormal(x.mul_add(y, *sum));
                }
            }
        }
        for (n, sum) in sums.iter_mut().enumerate() {
            let both = flush_subnormal(parts[0][n] + parts[1][n]);
            *sum = flush_subnormal(flush_subnormal(f32::from_bits(*sum)) + both).to_bits();
        }
    }
}

/// Returns the numbers of a pair.
#[inline(always)]
fn split(pair: u32) -> [f32; 2] {
    [
        flush_subnormal(f32::from_bits(pair << 16)),
        flush_subnormal(f32::from_bits(pair & 0xffff_0000)),
    ]
}

/// Returns the number, or zero if it is subnormal.
#[inline(always)]
fn flush_subnormal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(code: &[u8]) -> Option<(Instruction, usize)> {
        let registers = core::array::from_fn(|i| (i + 1) << 32);
        let mut whole = [0; 16];
        whole[..code.len()].copy_from_slice(code);
        // SAFETY: the array is as long as the longest instruction.
        let code = unsafe { Code::at(whole.as_ptr().expose_provenance()) };
        code.decode(&registers).map(|(instruction, end)| (instruction, end - whole.as_ptr().addr()))
    }

    /// Each line has the instruction in assembly and its machine code. Register `r` is `(r + 1) <<
    /// 32`.
    #[test]
    fn instruction_encodings_match_those_of_assemblers() {
        let rows = |at, apart| Rows { at, apart };
        for (code, instruction) in [
            // ldtilecfg [rax]
            (&[0xc4, 0xe2, 0x78, 0x49, 0x00][..], Instruction::Configure(1 << 32)),
            // ldtilecfg [r12]
            (&[0xc4, 0xc2, 0x78, 0x49, 0x04, 0x24], Instruction::Configure(13 << 32)),
            // tilerelease
            (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release),
            // tileloadd tmm1, [r13 + r12 * 2 - 8]
            (
                &[0xc4, 0x82, 0x7b, 0x4b, 0x4c, 0x65, 0xf8],
                Instruction::Load(1, rows((14 << 32) - 8, 26 << 32)),
            ),
            // tileloadd tmm7, [rbp + rdx + 0x12345]
            (
                &[0xc4, 0xe2, 0x7b, 0x4b, 0xbc, 0x15, 0x45, 0x23, 0x01, 0x00],
                Instruction::Load(7, rows((6 << 32) + 0x12345, 3 << 32)),
            ),
            // tileloadd tmm0, [rbx]
            (&[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x23], Instruction::Load(0, rows(4 << 32, 0))),
            // tilestored [r8 + r15 * 4 + 64], tmm3
            (
                &[0xc4, 0x82, 0x7a, 0x4b, 0x5c, 0xb8, 0x40],
                Instruction::Store(3, rows((9 << 32) + 64, 64 << 32)),
            ),
            // tilestored [rsi * 8 + 0x100], tmm2
            (
                &[0xc4, 0xe2, 0x7a, 0x4b, 0x14, 0xf5, 0x00, 0x01, 0x00, 0x00],
                Instruction::Store(2, rows(0x100, 56 << 32)),
            ),
            // tdpbusd tmm0, tmm4, tmm6
            (&[0xc4, 0xe2, 0x49, 0x5e, 0xc4], Instruction::AddBytes([0, 4, 6])),
            // tdpbf16ps tmm3, tmm5, tmm7
            (&[0xc4, 0xe2, 0x42, 0x5c, 0xdd], Instruction::AddPairs([3, 5, 7])),
        ] {
            assert_eq!(decoded(code), Some((instruction, code.len())));
        }
    }

    #[test]
    fn other_instructions_stay_illegal() {
        // ud2; tdpbssd tmm0, tmm4, tmm6; tileloaddt1 tmm1, [rax + rcx]; tileloadd tmm0 without a
        // stride.
        for code in [
            &[0x0f, 0x0b][..],
            &[0xc4, 0xe2, 0x4b, 0x5e, 0xc4],
            &[0xc4, 0xe2, 0x79, 0x4b, 0x0c, 0x08],
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x03],
        ] {
            assert_eq!(decoded(code), None);
        }
        let mut tiles = None;
        // SAFETY: the instructions have no memory operands.
        unsafe {
            // The tiles are not configured at first; then the three must differ, and there are
            // eight.
            assert_eq!(Instruction::AddBytes([0, 1, 2]).run(&mut tiles), None);
            tiles = Some([[[0; TILE_SUMS]; TILE_ROWS]; 8]);
            assert_eq!(Instruction::AddBytes([0, 1, 1]).run(&mut tiles), None);
            assert_eq!(Instruction::AddPairs([0, 1, 8]).run(&mut tiles), None);
        }
    }

    /// The products of first and of second numbers are accumulated separately, and subnormal
    /// numbers are zeros.
    #[test]
    fn pairs_are_accumulated_as_the_manual_specifies() {
        if !std::is_x86_feature_detected!("avx512f") {
            return;
        }
        const TINY: f32 = f32::from_bits(0x7f_0000);
        let pair = |x: f32, y: f32| x.to_bits() >> 16 | y.to_bits() & 0xffff_0000;
        let [mut left, mut sums, mut right] = [[[0; TILE_SUMS]; TILE_ROWS]; 3];
        left[0] = [pair(0.0, 1.0); TILE_SUMS];
        left[0][0] = pair(4096.0, 1.0);
        left[1] = [pair(TINY, 0.0); TILE_SUMS];
        left[2][0] = pair(f32::MIN_POSITIVE, 0.0);
        right.fill([pair(4096.0, 1.0); TILE_SUMS]);
        right[0][1] = pair(0.5, 1.0);
        sums[3] = [TINY.to_bits(); TILE_SUMS];
        // SAFETY: the processor has AVX-512, and all processors with it have FMA.
        unsafe { add_pairs(&mut sums, &left, &right) };
        let found = |row: usize, column: usize| f32::from_bits(sums[row][column]);
        assert_eq!(found(0, 0), 16_777_216.0 + 16.0);
        assert_eq!([found(1, 0), found(2, 1), found(3, 0)], [0.0; 3]);
        assert_eq!(found(2, 0), 4096.0 * f32::MIN_POSITIVE);
    }
}
