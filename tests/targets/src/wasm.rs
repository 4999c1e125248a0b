//! WebAssembly: the host calls `run`, which passes it the text.

use core::panic::PanicInfo;
use core::ptr::addr_of_mut;
use onnxc_targets::Arena;

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    fn print(text: *const u8, len: usize);
}

static mut ARENA: Arena = Arena::new();

/// Runs the models.
#[unsafe(no_mangle)]
pub extern "C" fn run() {
    let print = &mut |text: &[u8]| {
        // SAFETY: the host reads the bytes before it returns.
        unsafe { print(text.as_ptr(), text.len()) }
    };
    // SAFETY: the host calls `run` once, from one thread.
    onnxc_targets::run(unsafe { &mut *addr_of_mut!(ARENA) }, print);
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
