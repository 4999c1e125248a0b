//! Prints the ten scores of a handwritten digit on a Cortex-M4, without an operating system and
//! without an allocator. The module is that of `examples/cli`.
#![no_std]
#![no_main]

#[rustfmt::skip]
#[path = "../../cli/src/digits.rs"]
mod digits;

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use digits::Digits;
use panic_semihosting as _;

#[entry]
fn main() -> ! {
    // The variable is a static one: `entry` sees to it that it is borrowed once.
    static mut MODEL: Digits = Digits::new();
    if let Some(digit) = digits_data::held_out().next() {
        for score in MODEL.infer(&digit.image) {
            hprintln!("{:.4}", score);
        }
    }
    debug::exit(debug::EXIT_SUCCESS);
    loop {}
}
