//! What the programs have in common: text without `core::fmt`, which would take more room than the
//! models' code.
#![no_std]

use core::panic::PanicInfo;
use cortex_m_semihosting::{debug, hio};

/// Prints text on the host.
pub fn print(text: &str) {
    if let Ok(mut host) = hio::hstdout() {
        // Nobody is left to hear of a text that cannot be printed.
        let _ = host.write_all(text.as_bytes());
    }
}

/// Prints a number with four digits behind the point.
pub fn print_score(score: f32) {
    let scaled = score.abs() * 10_000.0;
    let whole = scaled as u32;
    let ten_thousandths = whole + u32::from(scaled - whole as f32 >= 0.5);
    print(if score < 0.0 { "-" } else { "" });
    print_number(ten_thousandths / 10_000, 1);
    print(".");
    print_number(ten_thousandths % 10_000, 4);
}

/// Prints a whole number, with zeros in front up to so many digits.
pub fn print_number(mut number: u32, digits: usize) {
    let mut text = [b'0'; 10];
    let mut first = text.len();
    while number > 0 || text.len() - first < digits {
        first -= 1;
        text[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    print(str::from_utf8(&text[first..]).unwrap_or("?"));
}

/// Ends the emulator.
pub fn exit() -> ! {
    debug::exit(debug::EXIT_SUCCESS);
    fail()
}

/// Ends the emulator, and says that something went wrong.
pub fn fail() -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    fail()
}
