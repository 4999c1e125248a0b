//! Prints the ten scores of a handwritten digit on a Cortex-M4, without an operating system or an
//! allocator, and then the number of digits classified correctly, with the float model and with the
//! quantized one. The first module is that of `examples/cli`, and holds its arena; the second one
//! gets an arena from the program.
#![no_std]
#![no_main]

#[rustfmt::skip]
#[path = "../../../cli/src/digits.rs"]
mod digits;
#[rustfmt::skip]
#[path = "../models/digits_int8.rs"]
mod digits_int8;

use cortex_m_rt::entry;
use digits::Digits;
use digits_data::{COUNT, best, held_out};
use digits_firmware::{exit, print, print_number, print_score};
use digits_int8::DigitsInt8;
use onnxc_runtime::arena::{Block, InlineArena};

#[entry]
fn main() -> ! {
    // `entry` makes these statics local, so they are borrowed once.
    static mut DIGITS: Digits = Digits::new();
    static mut ARENA: InlineArena<{ DigitsInt8::PEAK_ARENA_BYTES.div_ceil(Block::BYTES) }> =
        InlineArena::new();
    let digits_int8 = DigitsInt8::new();
    let mut right = [0, 0];
    for (i, digit) in held_out().enumerate() {
        let scores = DIGITS.infer(&digit.image);
        if i == 0 {
            for &score in scores {
                print_score(score);
                print("\n");
            }
        }
        right[0] += u32::from(best(scores) == digit.label);
        let scores = digits_int8.infer_in(ARENA, &digit.image);
        right[1] += u32::from(best(scores) == digit.label);
    }
    for (right, how) in right.into_iter().zip(["", " with bytes"]) {
        print_number(right, 1);
        print(" of ");
        print_number(COUNT as u32, 1);
        print(" digits are right");
        print(how);
        print("\n");
    }
    exit()
}
