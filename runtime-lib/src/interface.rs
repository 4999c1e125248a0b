//! The version of the interface between generated modules and this crate.

/// The version of the interface that generated modules rely on: kernels and their geometry, the
/// arena, views, and everything else that `onnxc` names in a module.
///
/// A release raises it if modules that earlier releases generated would no longer compile, or would
/// compute different results. A release that keeps it, as every patch release does, accepts
/// existing modules.
pub const INTERFACE_VERSION: u32 = 2;

/// Stops the compilation of a module that was generated for another interface version.
///
/// # Panics
///
/// Panics if `generated` is not [`INTERFACE_VERSION`]. A module calls it in a constant, so the
/// panic is a compile error.
#[doc(hidden)]
pub const fn check_interface(generated: u32) {
    if generated != INTERFACE_VERSION {
        panic!("{}", Message::new(generated).as_str());
    }
}

/// The text of a compile error, formatted without a heap.
struct Message {
    bytes: [u8; Message::CAPACITY],
    len: usize,
}

impl Message {
    const CAPACITY: usize = 400;

    const fn new(generated: u32) -> Message {
        Message { bytes: [0; Message::CAPACITY], len: 0 }
            .text("this module was generated for interface version ")
            .number(generated)
            .text(" of onnxc-runtime, but onnxc-runtime ")
            .text(env!("CARGO_PKG_VERSION"))
            .text(" has interface version ")
            .number(INTERFACE_VERSION)
            .text(": generate the module again with onnxc ")
            .text(env!("CARGO_PKG_VERSION"))
            .text(", or depend on the onnxc-runtime of the onnxc that generated it")
    }

    const fn text(mut self, text: &str) -> Message {
        let mut i = 0;
        while i < text.len() {
            self.bytes[self.len] = text.as_bytes()[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    const fn number(self, n: u32) -> Message {
        const DIGITS: &str = "0123456789";
        let (higher, digit) = (n / 10, (n % 10) as usize);
        let before = if higher == 0 { self } else { self.number(higher) };
        before.text(DIGITS.split_at(digit).1.split_at(1).0)
    }

    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "this module was generated for another version of onnxc-runtime",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_this_interface_compiles() {
        const { check_interface(INTERFACE_VERSION) };
    }

    #[test]
    fn the_error_names_both_interfaces_and_the_way_out() {
        let message = Message::new(4_294_967_295);
        let (text, version) = (message.as_str(), env!("CARGO_PKG_VERSION"));
        assert!(text.contains("for interface version 4294967295 of onnxc-runtime"), "{text}");
        assert!(
            text.contains(&std::format!("has interface version {INTERFACE_VERSION}:")),
            "{text}"
        );
        assert!(
            text.contains(&std::format!("generate the module again with onnxc {version}")),
            "{text}"
        );
    }
}
