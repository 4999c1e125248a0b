//! RISC-V without an operating system, on QEMU's board `virt`.

use crate::stack::Stack;
use core::arch::global_asm;
use core::panic::PanicInfo;
use core::ptr::{addr_of_mut, write_volatile};
use onnxc_targets::{Arena, hexadecimal, run};

global_asm!(
    ".section .init",
    ".global _start",
    "_start:",
    "la sp, _stack_start",
    "j {main}",
    main = sym main,
);

/// The serial port.
const PORT: *mut u8 = 0x1000_0000 as *mut u8;
/// The device that ends the emulator.
const END: *mut u32 = 0x0010_0000 as *mut u32;
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x1_3333;

unsafe extern "C" {
    static mut _stack_end: u32;
}

static mut ARENA: Arena = Arena::new();

extern "C" fn main() -> ! {
    let print = &mut |text: &[u8]| {
        for &byte in text {
            // SAFETY: the board maps the port at this address.
            unsafe { write_volatile(PORT, byte) }
        }
    };
    // SAFETY: the linker script leaves the memory after the statics to the stack.
    let stack = unsafe { Stack::paint(&raw mut _stack_end) };
    // SAFETY: the program starts once, and nothing else refers to the arena.
    run(unsafe { &mut *addr_of_mut!(ARENA) }, print);
    let used = stack.used();
    print(b"stack");
    hexadecimal(print, used);
    print(b"\n");
    exit(PASS)
}

fn exit(how: u32) -> ! {
    // SAFETY: the board maps the device at this address.
    unsafe { write_volatile(END, how) };
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(FAIL)
}
