//! [`include_onnx!`], the macro that compiles a model.

mod arguments;
mod expand;

use arguments::Arguments;
use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Compiles an ONNX model, and expands to the items of its module.
///
/// ```ignore
/// use onnxc_macros::include_onnx;
///
/// include_onnx!("model.onnx", name = "Digits", dims(batch = 1));
///
/// let scores = Digits::new().infer(&image);
/// ```
///
/// The path is relative to the package (`CARGO_MANIFEST_DIR`), or else to the file that calls the
/// macro. The package must depend on `onnxc-runtime`. Cargo recompiles it when the model, or a file
/// with its external data, changes.
///
/// | argument | effect |
/// |---|---|
/// | `name = "Digits"` | sets the name of the model and its struct |
/// | `dims(batch = 1, seq = 1..=32)` | fixes a dimension, or bounds it |
/// | `dims(age_0 = batch, city_0 = batch)` | makes dimensions the same |
/// | `shapes(x = [1, 3, height, width])` | declares the axes of a value of unknown rank |
/// | `consts(sr = 8000, mean = [0.5, 0.5], bias)` | fixes an input to a value, or to its default |
/// | `defaults = constant` | makes every input with a default constant |
/// | `state(past = "present")` | feeds an output to the next run as an input |
/// | `custom("com.acme::Clip" = crate::clip)` | calls a function for an operator |
/// | `types(y = "float[n, 10]")` | sets the type of an output of a custom operator |
/// | `optimize = size` | optimizes for `speed` or `size` |
/// | `precision = int8_weights` | stores weights as `bf16`, `f16` or `int8_weights` |
/// | `arena = caller` | places the arena: `struct`, `heap` or `caller` |
/// | `max_arena = 64K` | limits the bytes of the arena (`65_536`), by rematerialization |
/// | `taps = true` | adds `infer_with`, which shows the values of each node |
/// | `profile = true` | adds `infer_profiled`, which measures the time of each node |
/// | `limits(nodes = 500_000)` | sets a limit of the work of compiling |
/// | `deny_warnings = true` | makes warnings errors |
/// | `weights = inline` | stores the weights in the program, the only choice in a macro |
///
/// The options of the `onnxc` program that take one value are arguments of the same name, with `_`
/// for `-`.
///
/// A warning about the model is a warning of rustc at the path.
///
/// Two models of one name define the same items. Give one of them another `name`, or expand each in
/// a different module.
///
/// Quote a name that is not an identifier: `dims("sequence length" = 32)`.
///
/// rustc reads the model again to track its changes, but leaves the weights to the assembler: the
/// macro writes them to a file in the target folder. Compile models of gigabytes in a build script,
/// with `onnxc::Builder`.
#[proc_macro]
pub fn include_onnx(input: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(input as Arguments);
    expand::expand(&arguments).unwrap_or_else(syn::Error::into_compile_error).into()
}
