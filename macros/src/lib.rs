//! [`include_onnx!`], the macro that compiles a model where the program names it.

mod arguments;
mod expand;

use arguments::Arguments;
use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Compiles an ONNX model, and stands for the items of its module.
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
/// macro. The package needs `onnxc-runtime` among its dependencies, and is compiled again when the
/// model, or a file with its external data, changes.
///
/// | argument | what it says |
/// |---|---|
/// | `name = "Digits"` | calls the model, and its struct, something else than its file |
/// | `dims(batch = 1, seq = 1..=32)` | fixes a dimension, or bounds it |
/// | `shapes(x = [1, 3, height, width])` | says the axes of an input where the model leaves their number open |
/// | `consts(sr = 8000, mean = [0.5, 0.5], bias)` | makes an input a constant; without a value, its default |
/// | `defaults = constant` | makes every input that has a default a constant |
/// | `state(past = "present")` | hands the output to the next run as the input; neither is the caller's |
/// | `custom("com.acme::Clip" = crate::clip)` | has a function of the program called for an operator, as `onnxc_runtime::custom` says |
/// | `types(y = "float[n, 10]")` | says the type of a value that such a function gives |
/// | `optimize = speed` or `optimize = size` | what matters most |
/// | `precision = bf16`, `f16` or `int8_weights` | constant weights stand in fewer bits |
/// | `arena = struct`, `heap` or `caller` | where the arena is; by default in the struct where it is small; `infer_in` takes the caller's |
/// | `max_arena = 65_536` | the most bytes that the arena may have: values are computed again where it would be larger |
/// | `weights = inline` | the weights stand in the program: the only way there is for a macro |
///
/// Two models of one name in one scope are one item defined twice, which rustc says of each of their
/// parts. So a model that is compiled in two ways is called something else by `name`, or each stands in
/// a module of its own.
///
/// A name that is no identifier stands in quotes: `dims("sequence length" = 32)`.
///
/// The compiler reads the model once more to notice its changes, so a model of gigabytes is better
/// compiled by a build script, with `onnxc::Builder`.
#[proc_macro]
pub fn include_onnx(input: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(input as Arguments);
    expand::expand(&arguments).unwrap_or_else(syn::Error::into_compile_error).into()
}
