//! Output of text and the exit of the emulator. The text is formatted without `core::fmt`, which
//! would be larger than the code of the models.
#![no_std]

use core::panic::PanicInfo;
use cortex_m_semihosting::{debug, hio};

/// Prints text on the host.
pub fn print(text: &str) {
    if let Ok(mut host) = hio::hstdout() {
        // A failure to print cannot be reported.
        let _ = host.write_all(text.as_bytes());
    }
}

/// Prints a number with four decimals.
pub fn print_score(score: f32) {
    let scaled = score.abs() * 10_000.0;
    let whole = scaled as u32;
    let ten_thousandths = whole + u32::from(scaled - whole as f32 >= 0.5);
    print(if score < 0.0 { "-" } else { "" });
    print_number(ten_thousandths / 10_000, 1);
    print(".");
    print_number(ten_thousandths % 10_000, 4);
}

/// Prints an integer with leading zeros up to `digits` digits.
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

/// Ends the emulator with success.
pub fn exit() -> ! {
    debug::exit(debug::EXIT_SUCCESS);
    fail()
}

/// Ends the emulator with a failure.
pub fn fail() -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    fail()
}
