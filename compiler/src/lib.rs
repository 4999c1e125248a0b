//! onnxc compiles ONNX models to Rust.
//!
//! # The rooms
//!
//! A model goes through them from top to bottom; imports point downward only.
//!
//! | room | what it holds | what it must not know |
//! |---|---|---|
//! | [`import`] | bytes → messages → [`ir::Graph`] | kernels, plans |
//! | [`passes`] | graph → graph, one file a pass | the file format, generated code |
//! | [`emit`] | plan → tokens → text | graphs, operators, ONNX |
//! | [`host`] | runs a plan here and now | graphs, operators |
//! | [`ops`] | every operator, one file a family | the file format, passes, tokens |
//! | [`ir`] | graph, the trait [`ir::Op`], lowering to a plan | any particular operator |
//! | [`plan`] | kernel calls, buffers, memory | graphs, operators, tokens |
//! | base | [`arena`], [`array`], [`diag`], [`dim`], [`dtype`], [`ident`], [`tensor`], [`ty`], [`value`] | everything above |

pub mod arena;
pub mod array;
mod builder;
pub mod diag;
pub mod dim;
pub mod dtype;
pub mod emit;
pub mod host;
pub mod ident;
pub mod import;
pub mod ir;
pub mod ops;
pub mod options;
pub mod passes;
pub mod plan;
pub mod tensor;
pub mod ty;
pub mod value;

pub use builder::{Builder, Report, write_if_changed};
pub use emit::{ArenaIn, Module};
pub use options::{Options, Weights};
pub use plan::Optimize;

use diag::{Code, Diagnostic, Diagnostics};
use ir::Graph;
use plan::Plan;
use std::path::{Path, PathBuf};

/// A compiled model.
pub struct Output {
    /// The plan, from which more can be asked.
    pub plan: Plan,
    /// The module.
    pub module: Module,
    /// The name of the file for the weights, where they stand in one.
    pub weights_file: Option<String>,
    /// The files beside the model that were read, relative to its directory.
    pub files: Vec<PathBuf>,
}

/// Compiles the model file at `path`; `seen` is shown the graph after each pass.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn compile(
    path: &Path,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Output, Diagnostics> {
    let place = path.display().to_string();
    let model = std::fs::read(path)
        .map_err(|error| Diagnostic::new(Code::Io, error.to_string()).within(place.clone()))?;
    let mut options = options.clone();
    if options.settings.directory.is_none() {
        options.settings.directory = path.parent().map(Path::to_owned);
    }
    let stem = path.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
    compile_bytes(model.into(), &stem, &options, seen).map_err(|all| all.within(&place))
}

/// Compiles the bytes of a model file; `stem` names it.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn compile_bytes(
    model: bytes::Bytes,
    stem: &str,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Output, Diagnostics> {
    let (plan, files) = plan(model, options, seen)?;
    let style = options.style(&plan, stem);
    let module = emit::module(&plan, &style);
    let weights_file = match style.weights {
        emit::WeightsIn::File(name) => Some(name),
        emit::WeightsIn::Module => None,
    };
    Ok(Output { plan, module, weights_file, files })
}

/// Compiles the bytes of a model file to the items of a module, as a macro gives them, and names
/// the files beside the model that were read.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn items(
    model: bytes::Bytes,
    stem: &str,
    options: &Options,
) -> Result<(proc_macro2::TokenStream, Vec<PathBuf>), Diagnostics> {
    let (plan, files) = plan(model, options, &mut |_, _| {})?;
    Ok((emit::items(&plan, &options.style(&plan, stem)), files))
}

/// The plan of a model file, and the files beside it that were read.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn plan(
    model: bytes::Bytes,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<(Plan, Vec<PathBuf>), Diagnostics> {
    let imported = import::model(model, &options.settings)?;
    let graph = passes::run(imported.graph, options.optimize, seen)?;
    let mut plan = ir::plan(&graph, options.optimize)?;
    plan::dead::drop_unread(&mut plan);
    plan::moves::move_sequences(&mut plan);
    plan::memory::lay_out(&mut plan);
    Ok((plan, imported.files))
}
