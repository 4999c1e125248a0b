//! onnxc compiles ONNX models to Rust.
//!
//! A build script wants [`Builder`] and no more. Who wants to look at models, change them or make
//! them: [`import::model`] reads one into an [`ir::Graph`], or [`Spec`] adds nodes to an empty one;
//! [`ir::replace`] and [`ir::Edit`] give changed copies; [`optimize`] simplifies;
//! [`export::model`] makes ONNX of it, and [`export::write`] a file.
//!
//! # The rooms
//!
//! A model goes through them from top to bottom; imports point downward only.
//!
//! | room | what it holds | what it must not know |
//! |---|---|---|
//! | [`train`] | messages → messages of a model that can be trained | kernels, plans, generated code |
//! | [`import`] | bytes → messages → [`ir::Graph`] | kernels, plans |
//! | [`mod@check`] | messages → diagnostics: the rules of the format | everything but the base |
//! | [`export`] | [`ir::Graph`] → messages | kernels, plans, passes |
//! | [`passes`] | graph → graph, one file a pass | the file format, generated code |
//! | [`emit`] | plan → tokens → text | graphs, operators, ONNX |
//! | [`host`] | runs a plan here and now | graphs, operators |
//! | [`ops`] | every operator, one file a family | the file format, passes, tokens |
//! | [`ir`] | graph, the trait [`ir::Op`], lowering to a plan | any particular operator |
//! | [`mod@plan`] | kernel calls, buffers, memory | graphs, operators, tokens |
//! | base | [`arena`], [`mod@array`], [`diag`], [`dim`], [`domain`], [`dtype`], [`mod@file`], [`ident`], [`tensor`], [`ty`], [`value`] | everything above |

pub mod arena;
pub mod array;
mod builder;
pub mod check;
pub mod diag;
pub mod dim;
pub mod domain;
pub mod dtype;
pub mod emit;
pub mod export;
pub mod file;
pub mod ident;
pub mod import;
pub mod interpreter;
pub mod ir;
mod mapping;
pub mod ops;
pub mod options;
pub mod passes;
pub mod plan;
pub mod tensor;
pub mod train;
pub mod ty;
pub mod value;

pub use builder::{Builder, Report};
pub use emit::{ArenaIn, Module};
pub use file::write_if_changed;
pub use import::{Defaults, Spec};
pub use options::{Options, Weights};
pub use plan::{Optimize, Precision};

use diag::{Code, Diagnostic, Diagnostics};
use file::Replacement;
use import::Imported;
use ir::Graph;
use onnxc_proto::ModelProto;
use passes::OwnPass;
use plan::{Algorithm, Plan, Plans, Training};
use std::{
    io::Write,
    iter,
    path::{Path, PathBuf},
};

/// A compiled model.
pub struct Output {
    /// Its plans, from which more can be asked.
    pub plans: Plans,
    /// The module.
    pub module: Module,
    /// The name of the file for the weights, where they stand in one.
    pub weights_file: Option<String>,
    /// The files beside the model that were read, relative to its directory.
    pub files: Vec<PathBuf>,
    /// The model's own file, where it was read from one.
    pub model: Option<PathBuf>,
}

impl Output {
    /// Writes the module to `path` and the weights, where they have a file, to theirs beside it,
    /// which is given back. Files are written only where their bytes change, and both or neither.
    ///
    /// # Errors
    ///
    /// Where the system refuses, where weights have no place beside `path`, and where what the
    /// model was read from would be written over.
    pub fn write(&self, path: &Path) -> Result<Option<PathBuf>, Diagnostic> {
        let (beside, files) = self.written(path)?;
        // All are whole by now, so only a crash between two renames can part them.
        files.into_iter().try_for_each(Replacement::put)?;
        Ok(beside)
    }

    /// The path of the weights, where they have a file, and what [`Self::write`] puts in its place.
    fn written(&self, path: &Path) -> Result<(Option<PathBuf>, Vec<Replacement>), Diagnostic> {
        let beside = self.weights_file.as_ref().map(|name| file::beside(path, name)).transpose()?;
        [Some(path), beside.as_deref()].into_iter().flatten().try_for_each(|to| self.spares(to))?;
        let write = |out: &mut dyn Write| emit::write_weights(&self.plans.all(), out);
        let weights = beside.as_deref().map(|beside| Replacement::of(beside, write)).transpose()?;
        let module = Replacement::of(path, |out| out.write_all(self.module.code.as_bytes()))?;
        Ok((beside, weights.into_iter().chain([module]).collect()))
    }

    /// Refuses a path at which lies what the model was read from.
    fn spares(&self, to: &Path) -> diag::Result {
        let Some(model) = &self.model else { return Ok(()) };
        let files = self.files.iter().map(|file| model.with_file_name(file));
        if !iter::once(model.clone()).chain(files).any(|from| file::is_one(&from, to)) {
            return Ok(());
        }
        Err(Diagnostic::new(Code::BadOption, "the model was read from it, and would be lost")
            .help("write to another path")
            .within(to.display().to_string()))
    }
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
    let (model, options) = read(path, options)?;
    let stem = path.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
    let place = path.display().to_string();
    let output = compile_bytes(model, &stem, &options, seen).map_err(|all| all.within(&place))?;
    Ok(Output { model: Some(path.to_owned()), ..output })
}

/// The bytes of a model file, and the options with the directory in which it lies.
fn read(path: &Path, options: &Options) -> Result<(bytes::Bytes, Options), Diagnostic> {
    let model = file::read(path).map_err(file::refused(path))?;
    Ok((model, options.clone().beside(path)))
}

/// What is to be said of a model.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What is wrong with it. Where nothing is, the model is valid.
    pub invalid: Vec<Diagnostic>,
    /// What is valid, but cannot be compiled.
    pub unsupported: Vec<Diagnostic>,
}

/// Whether the model file at `path` is valid, and whether it can be compiled.
pub fn check(path: &Path, options: &Options) -> Verdict {
    match read(path, options) {
        Ok((model, options)) => {
            let verdict = check_bytes(model, &options);
            let place = path.display().to_string();
            let within = |found: Vec<Diagnostic>| Diagnostics(found).within(&place).0;
            Verdict { invalid: within(verdict.invalid), unsupported: within(verdict.unsupported) }
        }
        Err(diagnostic) => Verdict { invalid: vec![diagnostic], ..Verdict::default() },
    }
}

/// Whether the bytes of a model file are valid, and whether they can be compiled.
pub fn check_bytes(model: bytes::Bytes, options: &Options) -> Verdict {
    let found = plans(model, options, &mut |_, _| {}).err().map_or(Vec::new(), |found| found.0);
    let mut verdict = Verdict::default();
    for diagnostic in found {
        let invalid = diagnostic.code.is_invalidity();
        let list = if invalid { &mut verdict.invalid } else { &mut verdict.unsupported };
        // The same fault at the same place is said once, however many rooms met it.
        if !list.contains(&diagnostic) {
            list.push(diagnostic);
        }
    }
    verdict
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
    let (plans, files) = plans(model, options, seen)?;
    let style = options.style(plans.infer(), stem);
    has_its_state(plans.infer(), &style)?;
    if style.weights == emit::WeightsIn::Module {
        fits_a_module(plans.infer())?;
    }
    let module = emit::module(&plans, &style);
    let weights_file = match style.weights {
        emit::WeightsIn::File(name) => Some(name),
        emit::WeightsIn::Module => None,
    };
    Ok(Output { plans, module, weights_file, files, model: None })
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
    let (plans, files) = plans(model, options, &mut |_, _| {})?;
    let style = options.style(plans.infer(), stem);
    has_its_state(plans.infer(), &style)?;
    fits_a_module(plans.infer())?;
    Ok((emit::items(&plans, &style), files))
}

/// Refuses to put into the caller's arena what must last from one run to the next.
fn has_its_state(plan: &Plan, style: &emit::Style) -> Result<(), Diagnostic> {
    if plan.states.is_empty() || style.arena != ArenaIn::Caller {
        return Ok(());
    }
    let message = "the model keeps its state in the arena, so no other model can share it";
    Err(Diagnostic::new(Code::BadOption, message)
        .help("let the model have an arena of its own: `--arena struct`, or `--arena heap`"))
}

/// Refuses weights that are too many for source text.
fn fits_a_module(plan: &Plan) -> Result<(), Diagnostic> {
    const MOST: usize = 256 << 20;
    if plan.weight_bytes <= MOST {
        return Ok(());
    }
    let message = format!("{} bytes of weights do not fit in a module", plan.weight_bytes);
    Err(Diagnostic::new(Code::TooLarge, message)
        .help("have them written to a file: `onnxc model.onnx -o model.rs`, or a build script"))
}

/// The plans of a model file, and the files beside it that were read.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn plans(
    model: bytes::Bytes,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<(Plans, Vec<PathBuf>), Diagnostics> {
    let model = import::decode(model)?;
    if let Some(graphs) = import::training(&model, &options.settings)? {
        let (training, files) = learning(graphs, options, seen)?;
        return Ok((Plans::Training(Box::new(training)), files));
    }
    let imported = import::message(&model, &options.settings)?;
    let (plan, files) = inferring(imported, options, seen)?;
    Ok((Plans::Inference(Box::new(plan)), files))
}

/// The plan of a model file, and the files beside it that were read. What a model learns is a
/// constant of it.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn plan(
    model: bytes::Bytes,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<(Plan, Vec<PathBuf>), Diagnostics> {
    inferring(import::model(model, &options.settings)?, options, seen)
}

/// The plans of a model file that learns, and the files beside it that were read; nothing where it
/// does not.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn training(
    model: bytes::Bytes,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Option<(Training, Vec<PathBuf>)>, Diagnostics> {
    let graphs = import::training(&import::decode(model)?, &options.settings)?;
    graphs.map(|graphs| learning(graphs, options, seen)).transpose()
}

/// The plan of a graph, with its memory laid out, and the files beside the model that were read.
fn inferring(
    imported: Imported,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<(Plan, Vec<PathBuf>), Diagnostics> {
    let mut plan = lowered(imported.graph, &options.passes, options, seen)?;
    fit(options, [&mut plan])?;
    plan::memory::lay_out(&mut plan)?;
    Ok((plan, imported.files))
}

/// Likewise the plans of the graphs of a model that learns.
fn learning(
    graphs: import::Training,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<(Training, Vec<PathBuf>), Diagnostics> {
    let import::Training { infer, reset, init, steps, files } = graphs;
    let mut plan = |graph, passes| lowered(graph, passes, options, seen);
    let mut training = Training {
        infer: plan(infer, &options.passes)?,
        reset: plan(reset, &[])?,
        init: plan(init, &[])?,
        steps: Vec::new(),
    };
    for (name, graph) in steps {
        training.steps.push(Algorithm { name, plan: plan(graph, &options.passes)? });
    }
    fit(options, training.plans_mut())?;
    plan::memory::lay_out_all(&mut training.plans_mut().collect::<Vec<_>>())?;
    Ok((training, files))
}

/// Has plans compute values again where they would need more memory than they may.
fn fit<'p>(options: &Options, plans: impl IntoIterator<Item = &'p mut Plan>) -> diag::Result {
    let Some(most) = options.max_arena else { return Ok(()) };
    plan::rematerialize::fit(plans, most)
}

/// The plan of a graph, before its memory is laid out.
fn lowered(
    graph: Graph,
    own: &[OwnPass],
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Plan, Diagnostics> {
    if options.optimize == Optimize::Size && options.precision != Precision::Full {
        let message = "weights in fewer bits are widened into memory that small code is to save";
        return Err(Diagnostic::new(Code::BadOption, message)
            .help("leave out `--precision`, or `--optimize size`")
            .into());
    }
    let graph = passes::run(graph, own, passes::pipeline(options.optimize), seen)?;
    let mut plan = ir::plan(&graph, options.optimize, options.precision)?;
    plan::dead_calls::drop_unread(&mut plan);
    plan::copy_elision::move_sequences(&mut plan);
    Ok(plan)
}

/// The graph of a model file, simplified but of ONNX's own operators alone, as [`export::model`]
/// writes it.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place.
pub fn optimize(model: bytes::Bytes, options: &Options) -> Result<Graph, Diagnostics> {
    optimized_graph(&import::decode(model)?, options)
}

fn optimized_graph(model: &ModelProto, options: &Options) -> Result<Graph, Diagnostics> {
    let graph = import::message(model, &options.settings)?.graph;
    passes::run(graph, &options.passes, passes::STANDARD, &mut |_, _| {})
}

/// The messages of a model file, simplified as [`optimize`] does. Training information is kept: what
/// it names is there under the same names.
///
/// # Errors
///
/// Everything that is wrong with the model, at once, and each with its place; and training
/// information that would come to mean something else.
pub fn optimized(model: bytes::Bytes, options: &Options) -> Result<ModelProto, Diagnostics> {
    let mut model = import::decode(model)?;
    if model.training_info.is_empty() {
        return export::model(&optimized_graph(&model, options)?);
    }
    let settings = &options.settings;
    import::message(&model, settings)?;
    import::gather(&mut model, settings.directory.clone())?;
    let kept = train::Kept::taken(&mut model)?;
    let mut model = export::model(&optimized_graph(&model, options)?)?;
    kept.put_back(&mut model)?;
    // Sizes and constants are settled by now, and may have no names any more.
    let settings = import::Settings {
        customs: settings.customs.clone(),
        types: settings.types.clone(),
        ..import::Settings::default()
    };
    import::message(&model, &settings)?;
    Ok(model)
}
