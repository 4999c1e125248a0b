//! Runs a model once on a Cortex-M board, between two marker instructions, so that `plugin.c` can
//! count instructions.
#![no_std]
#![no_main]

#[rustfmt::skip]
mod model {
    include!(concat!(env!("ONNXC_MODULES"), "/counted.rs"));
}
#[path = "../../src/stack.rs"]
mod stack;
#[path = "../../src/vectors.rs"]
mod vectors;

use core::arch::asm;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hio::HostStream};
use model::Counted;
use onnxc_runtime::arena::{Block, InlineArena};
use stack::Stack;

/// The number of elements of the input.
const INPUTS: usize = decimal(env!("INPUTS"));

static mut ARENA: InlineArena<{ Counted::PEAK_ARENA_BYTES.div_ceil(Block::BYTES) }> =
    InlineArena::new();
static mut INPUT: [f32; INPUTS] = [0.0; INPUTS];

unsafe extern "C" {
    static mut _stack_end: u32;
}

const fn decimal(text: &str) -> usize {
    let (mut number, mut i) = (0, 0);
    while i < text.len() {
        number = 10 * number + (text.as_bytes()[i] - b'0') as usize;
        i += 1;
    }
    number
}

/// Fills the input with multiples of 1/128 from -1 to 1, from a linear congruential generator;
/// `peer.c` has the same.
fn fill(input: &mut [f32]) {
    let mut state = 1u32;
    for x in input {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *x = ((state >> 24) as i32 - 128) as f32 / 128.0;
    }
}

#[entry]
fn main() -> ! {
    // SAFETY: the program starts once, and nothing else refers to these statics.
    let (arena, input) = unsafe { (&mut *addr_of_mut!(ARENA), &mut *addr_of_mut!(INPUT)) };
    fill(input);
    let model = Counted::new();
    // SAFETY: the linker script leaves the memory after the statics to the stack.
    let stack = unsafe { Stack::paint(&raw mut _stack_end) };
    // SAFETY: the marker instructions do nothing.
    unsafe { asm!(".inst.n 0xbf60") };
    let output = model.infer_in(arena, input);
    // SAFETY: the marker instructions do nothing.
    unsafe { asm!(".inst.n 0xbf70") };
    let used = stack.used();
    if let Ok(mut out) = cortex_m_semihosting::hio::hstdout() {
        for x in output {
            line(&mut out, b"y", x.to_bits());
        }
        line(&mut out, b"stack", used);
    }
    debug::exit(debug::EXIT_SUCCESS);
    loop {}
}

/// Prints a word and a number in hexadecimal.
fn line(out: &mut HostStream, word: &[u8], bits: u32) {
    let mut text = *b" 00000000\n";
    for (place, digit) in text[1..9].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(bits >> (28 - 4 * place) & 15) as usize];
    }
    // A failure to print cannot be reported.
    let _ = out.write_all(word).and_then(|()| out.write_all(&text));
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
