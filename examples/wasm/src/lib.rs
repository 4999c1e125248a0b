//! A digits model for JavaScript: an image is written into the module's memory, and ten scores are
//! read from there.
#![no_std]

#[rustfmt::skip]
mod digits;

use core::panic::PanicInfo;
use core::ptr::{addr_of, addr_of_mut};
use digits::Digits;

static mut MODEL: Digits = Digits::new();
static mut IMAGE: [f32; 64] = [0.0; 64];

/// Where the image goes: 64 floats, row after row.
#[unsafe(no_mangle)]
pub extern "C" fn image() -> *mut f32 {
    addr_of_mut!(IMAGE).cast()
}

/// Where the ten scores of the image are, until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn scores() -> *const f32 {
    // SAFETY: a module has one thread, and no function of it is on its way while another is called.
    unsafe { (*addr_of_mut!(MODEL)).infer(&*addr_of!(IMAGE)).as_ptr() }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
