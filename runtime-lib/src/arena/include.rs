//! The weights file beside a module, as a part of the program.

/// Finds the file of [`include_weights!`](crate::include_weights).
#[cfg(feature = "link-weights")]
#[doc(hidden)]
pub use onnxc_runtime_macros::find_weights;

/// Makes a weights file a part of the program: `include_weights!("model.weights", LAYOUT)` is a
/// `&'static Aligned<[u8; N]>` of the `N` bytes before the [`Trailer`](crate::arena::Trailer).
/// `LAYOUT` is `Model::WEIGHT_LAYOUT` of the generated module. The path is relative to the source
/// file. The program is compiled again when the file changes.
///
/// With the feature `link-weights` the assembler reads the file: rustc takes a fraction of the time
/// and of the memory that it takes for the constants of `include_bytes!`. Without the feature,
/// under Miri, and on targets for which Rust has no stable assembler, such as WebAssembly, the file
/// is included by `include_bytes!`.
///
/// Does not compile with a file that was generated with another module.
#[macro_export]
macro_rules! include_weights {
    ($file:literal, $layout:expr $(,)?) => {
        $crate::__include_weights! { $file, $layout }
    };
}

#[cfg(all(linked_weights, not(miri)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __include_weights {
    ($($arguments:tt)*) => {
        $crate::arena::find_weights! { $crate ($($arguments)*) }
    };
}

#[cfg(not(all(linked_weights, not(miri))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __include_weights {
    ($($arguments:tt)*) => {
        $crate::__copy_weights! { $($arguments)* }
    };
}

/// Includes a weights file as a constant, of which rustc makes an aligned copy.
#[doc(hidden)]
#[macro_export]
macro_rules! __copy_weights {
    ($file:literal, $layout:expr) => {
        &$crate::arena::Aligned::of_file(::core::include_bytes!($file), $layout)
    };
}

/// Includes a weights file by the assembler. The arguments are the absolute path, the path as it is
/// written in a string of assembly, a symbol that only equal files share, the size of the weights,
/// the trailer, and the layout that it must have.
#[doc(hidden)]
#[macro_export]
macro_rules! __link_weights {
    (
        $path:literal, $quoted:literal, $symbol:literal, $len:literal,
        $trailer:literal, $layout:expr
    ) => {{
        const _: () = $crate::arena::Trailer::assert_layout($trailer, $layout);
        mod file {
            $crate::__assemble_weights! { $quoted, $symbol, $len }

            /// Makes rustc track the file as a dependency. Nothing calls this function, so no code
            /// is generated for it.
            #[allow(dead_code)]
            fn track() -> &'static [u8] {
                ::core::include_bytes!($path)
            }
        }
        // SAFETY: `__assemble_weights!` defines the symbol with `$len` bytes, in a section that is
        // not writable, and pads them to whole blocks, which are the size and the alignment of the
        // type. Any bytes are valid. Other definitions of the symbol have the same content.
        unsafe extern "C" {
            #[link_name = $symbol]
            safe static WEIGHTS: $crate::arena::Aligned<[u8; $len]>;
        }
        &WEIGHTS
    }};
}

/// Defines the symbol for ELF.
#[cfg(not(any(target_vendor = "apple", windows)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __assemble_weights {
    ($quoted:literal, $symbol:literal, $len:literal) => {
        $crate::__define_weights! {
            $quoted, $symbol, $len,
            concat!(".pushsection .rodata.", $symbol, ",\"a\""),
            concat!(".weak ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", %object"),
            concat!(".size ", $symbol, ", ", $len),
        }
    };
}

/// Defines the symbol for Mach-O.
#[cfg(target_vendor = "apple")]
#[doc(hidden)]
#[macro_export]
macro_rules! __assemble_weights {
    ($quoted:literal, $symbol:literal, $len:literal) => {
        $crate::__define_weights! {
            $quoted, concat!("_", $symbol), $len,
            ".pushsection __TEXT,__const",
            concat!(".globl _", $symbol),
            concat!(".weak_definition _", $symbol),
            concat!(".private_extern _", $symbol),
        }
    };
}

/// Defines the symbol for the object files of Windows.
#[cfg(windows)]
#[doc(hidden)]
#[macro_export]
macro_rules! __assemble_weights {
    ($quoted:literal, $symbol:literal, $len:literal) => {
        $crate::__define_weights! {
            $quoted, $symbol, $len,
            concat!(".pushsection .rdata$", $symbol, ",\"dr\",discard,", $symbol),
            concat!(".globl ", $symbol),
        }
    };
}

/// Defines a symbol with the first `$len` bytes of a file, and zeros up to a whole block. Modules
/// that include equal files define it more than once, of which the linker keeps one. `$declaration`
/// starts the section and declares the symbol.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_weights {
    ($quoted:literal, $symbol:expr, $len:literal, $($declaration:expr),+ $(,)?) => {
        ::core::arch::global_asm! {
            concat!(".ifndef ", $symbol),
            $($declaration,)+
            ".p2align 6",
            concat!($symbol, ":"),
            concat!(".incbin \"", $quoted, "\", 0, ", $len),
            // Zeros, if the file is shorter by now.
            concat!(".org ", $symbol, " + ", $len),
            ".p2align 6",
            ".popsection",
            ".endif",
        }
    };
}
