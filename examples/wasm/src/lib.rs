//! A digits model for JavaScript, which writes an image into the module's memory and reads ten
//! scores from it.
#![no_std]

#[rustfmt::skip]
mod digits;

use core::panic::PanicInfo;
use core::ptr::{addr_of, addr_of_mut};
use digits::Digits;

static mut MODEL: Digits = Digits::new();
static mut IMAGE: [f32; 64] = [0.0; 64];

/// Returns the address of the image: 64 floats, row by row.
#[unsafe(no_mangle)]
pub extern "C" fn image() -> *mut f32 {
    addr_of_mut!(IMAGE).cast()
}

/// Computes the ten scores of the image, and returns their address. They are valid until the next
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn scores() -> *const f32 {
    // SAFETY: a module has one thread, and its functions do not call each other, so nothing else
    // borrows these statics.
    unsafe { (*addr_of_mut!(MODEL)).infer(&*addr_of!(IMAGE)).as_ptr() }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
