//! Cortex-M boards, which print by semihosting.

use crate::stack::Stack;
use core::panic::PanicInfo;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hio};
use onnxc_targets::{Arena, hexadecimal, run};

unsafe extern "C" {
    /// The first address after all statics, where the stack ends.
    static mut __sheap: u32;
}

#[entry]
fn main() -> ! {
    static mut ARENA: Arena = Arena::new();
    let Ok(mut host) = hio::hstdout() else { fail() };
    // A failure to print shows up as a missing answer.
    let print = &mut |text: &[u8]| host.write_all(text).unwrap_or(());
    // SAFETY: the linker script leaves the memory after the statics to the stack.
    let stack = unsafe { Stack::paint(&raw mut __sheap) };
    run(ARENA, print);
    let used = stack.used();
    print(b"stack");
    hexadecimal(print, used);
    print(b"\n");
    debug::exit(debug::EXIT_SUCCESS);
    fail()
}

fn fail() -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    fail()
}
