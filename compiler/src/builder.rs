//! Compiling models from a build script.

use crate::{
    ArenaIn, Compiler, Optimize, Options, Precision, Weights,
    diag::{Code, Diagnostic, Diagnostics},
    file::Replacement,
    ident,
    import::{Axis, Const, Defaults, Size},
    ir::Graph,
    limits::Limit,
    options,
    passes::OwnPass,
    plan::Rematerialized,
};
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Compiles one model, from `build.rs`:
///
/// ```no_run
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     onnxc::Builder::new("model.onnx").dim("batch", 1).compile()?;
///     Ok(())
/// }
/// ```
///
/// The program includes the module: `include!(concat!(env!("OUT_DIR"), "/model.rs"));`.
///
/// Outside a build script, [`Builder::out_dir`] sets the directory:
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("onnxc-builder-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let model = directory.join("double.onnx");
/// // `double.onnx`, in ONNX's textual syntax.
/// let text = r#"<ir_version: 10, opset_import: ["" : 21]>
///     g (float[n, 2] x) => (float[n, 2] y) <float two = {2}> { y = Mul (x, two) }"#;
/// std::fs::write(&model, text)?;
/// let report = onnxc::Builder::new(&model).dim("n", 3).out_dir(&directory).compile()?;
/// assert_eq!(report.module, directory.join("double.rs"));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `compile`"]
pub struct Builder {
    model: PathBuf,
    out_dir: Option<PathBuf>,
    options: Options,
}

/// The files that a builder wrote, and the costs of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The path of the module.
    pub module: PathBuf,
    /// The path of the weights file, unless the weights are in the module.
    pub weights: Option<PathBuf>,
    /// The size of the arena of one run, in bytes. If it depends on free sizes, this is only the
    /// part that holds states, and the module's `arena_bytes` returns the size for given sizes.
    pub arena_bytes: usize,
    /// The size of all weights, in bytes.
    pub weight_bytes: usize,
    /// The multiply-adds of one run, without those of nodes whose sizes are free; the module's
    /// `macs` returns all for given sizes.
    pub macs: u64,
    /// The calls that are rematerialized to save memory.
    pub rematerialized: Vec<Rematerialized>,
    /// The warnings about the model: parts that are not compiled as written.
    pub warnings: Vec<Diagnostic>,
}

impl Builder {
    /// Creates a builder for the model file at `path`. Cargo runs build scripts in the directory of
    /// the package, so a relative path starts there.
    pub fn new(path: impl Into<PathBuf>) -> Builder {
        Builder { model: path.into(), out_dir: None, options: Options::default() }
    }

    /// Sets the name of the model, its struct and its files, which is that of the model file by
    /// default: with `name("small")` the module is `small.rs`, and the struct `Small`. So one model
    /// can be compiled in several ways.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        let name = name.into();
        self.options.stem = Some(name.clone());
        self.options.name = Some(name);
        self
    }

    /// Fixes the size of the dimension called `name`, as in `dim("batch", 8)`, or bounds it, so
    /// that the memory stays static: `dim("seq", 1..=32)`. A dimension without a name is named
    /// after its input and axis: `input_0`. The name of another dimension says that both are the
    /// same: `dim("age_0", "batch").dim("city_0", "batch")`.
    pub fn dim(mut self, name: impl Into<String>, size: impl Into<Size>) -> Builder {
        self.options.settings.dims.insert(name.into(), size.into());
        self
    }

    /// Declares the axes of the input called `name`, or of another value whose rank the model does
    /// not determine. Each axis has a size or a name, as in `[1.into(), 3.into(), "height".into(),
    /// "width".into()]`.
    pub fn shape(
        mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = Axis>,
    ) -> Builder {
        self.options.settings.shapes.insert(name.into(), axes.into_iter().collect());
        self
    }

    /// Replaces an input by a constant: a number, or a list in brackets, as in `constant("sr",
    /// 8000)` and `constant("mean", "[0.5, 0.25]")`.
    pub fn constant(mut self, name: impl Into<String>, value: impl ToString) -> Builder {
        self.options.settings.consts.insert(name.into(), Const::Value(value.to_string()));
        self
    }

    /// Replaces an input by its default, the initializer of the same name.
    pub fn default_constant(mut self, name: impl Into<String>) -> Builder {
        self.options.settings.consts.insert(name.into(), Const::Default);
        self
    }

    /// Sets how inputs with a default are compiled: as arguments that the caller may omit (the
    /// default), or as constants.
    pub fn defaults(mut self, defaults: Defaults) -> Builder {
        self.options.settings.defaults = defaults;
        self
    }

    /// Makes an input and an output a state, which the model stores: a run reads as `past` what the
    /// run before it computed as `present`.
    pub fn state(mut self, past: impl Into<String>, present: impl Into<String>) -> Builder {
        self.options.settings.states.insert(past.into(), present.into());
        self
    }

    /// Binds a custom operator, such as `com.acme::Clip`, to a function of the program, whose path
    /// starts at the root of a crate (`crate::clip`). `onnxc_runtime::custom` documents its
    /// arguments.
    pub fn custom(mut self, operator: impl Into<String>, function: impl Into<String>) -> Builder {
        let operator = options::operator(&operator.into());
        self.options.settings.customs.insert(operator, function.into());
        self
    }

    /// Declares the type of an output of a custom operator, if the model does not: `float[n, 10]`.
    pub fn value_type(mut self, name: impl Into<String>, ty: impl Into<String>) -> Builder {
        self.options.settings.types.insert(name.into(), ty.into());
        self
    }

    /// Adds a pass that changes the graph of the model before onnxc's own passes run: see
    /// [`crate::ir::replace`] and [`crate::ir::Edit`]. Passes run in the order in which they are
    /// added.
    pub fn pass(
        mut self,
        name: impl Into<String>,
        run: impl Fn(&Graph) -> Result<Graph, Diagnostics> + Send + Sync + 'static,
    ) -> Builder {
        self.options.passes.push(OwnPass::new(name, run));
        self
    }

    /// Sets the optimization goal: speed (the default) or size.
    pub fn optimize(mut self, optimize: Optimize) -> Builder {
        self.options.optimize = optimize;
        self
    }

    /// Sets the precision in which constant weights are stored. Fewer bits make the model smaller
    /// and less accurate.
    pub fn precision(mut self, precision: Precision) -> Builder {
        self.options.precision = precision;
        self
    }

    /// Sets the place of the weights: in a file beside the module (the default), or in the module.
    pub fn weights(mut self, weights: Weights) -> Builder {
        self.options.weights = weights;
        self
    }

    /// Sets the place of the arena, the memory of a run. By default, an arena of up to 64 KiB is in
    /// the model's struct. A larger one is on the heap, as is one that depends on free sizes.
    pub fn arena(mut self, arena: ArenaIn) -> Builder {
        self.options.arena = Some(arena);
        self
    }

    /// Limits the arena to this many bytes. Values are rematerialized to stay below the limit,
    /// which changes no result. [`Report::rematerialized`] lists the cost.
    pub fn max_arena(mut self, bytes: usize) -> Builder {
        self.options.max_arena = Some(bytes);
        self
    }

    /// Adds `infer_with` to the module, which calls a closure with the values of each node. `infer`
    /// stays as fast.
    pub fn taps(mut self) -> Builder {
        self.options.taps = true;
        self
    }

    /// Adds `infer_profiled` to the module, which measures the time of each node. `infer` stays as
    /// fast.
    pub fn profile(mut self) -> Builder {
        self.options.profile = true;
        self
    }

    /// Sets a limit of the work that a model causes when it is compiled.
    pub fn limit(mut self, limit: Limit, number: usize) -> Builder {
        self.options.settings.limits.set.insert(limit, number);
        self
    }

    /// Makes warnings errors. Without it, the build script prints them, so that cargo shows them.
    pub fn deny_warnings(mut self) -> Builder {
        self.options.deny_warnings = true;
        self
    }

    /// Writes to `directory` instead of cargo's `OUT_DIR`.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.out_dir = Some(directory.into());
        self
    }

    /// Compiles the model. A file is written only if its content changes.
    ///
    /// Tells cargo to run the build script again when the model changes. If the build script itself
    /// writes the model to `OUT_DIR`, it must name the sources of the model to cargo.
    ///
    /// # Errors
    ///
    /// Returns every error of the options and of the model, each with its location. Returns an
    /// error if no directory is set outside a build script, if a file cannot be read or written, or
    /// if another builder of the process wrote something else to the same file.
    pub fn compile(self) -> Result<Report, Diagnostics> {
        let file = self.model.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
        let stem = self.options.stem.as_deref().unwrap_or(&file);
        let module = self.directory()?.join(format!("{}.rs", ident::snake(stem)));
        let written_before = is_written(&module, &self.model)?;
        watch(&self.model);
        let compiled = Compiler::new(&self.options).compile(&self.model)?;
        warn(&compiled.warnings);
        compiled.files.iter().for_each(|file| watch(&self.model.with_file_name(file)));
        let (weights, files) = compiled.stage_files(&module)?;
        if written_before && files.iter().any(Replacement::is_other) {
            let message = "one model would be written to one file in two ways";
            return Err(taken(&module, message).note(self.model.display().to_string()).into());
        }
        files.into_iter().try_for_each(Replacement::put)?;
        let warnings = compiled.warnings.clone();
        let plan = compiled.plans.infer();
        written().insert(module.clone(), self.model);
        Ok(Report {
            module,
            weights,
            arena_bytes: plan.arena_bytes,
            weight_bytes: plan.weight_bytes,
            macs: plan.macs,
            rematerialized: compiled
                .plans
                .all()
                .into_iter()
                .flat_map(|plan| plan.rematerialized.clone())
                .collect(),
            warnings,
        })
    }

    /// Returns the output directory. Compiling a large model takes long, so a missing directory is
    /// reported before.
    fn directory(&self) -> Result<PathBuf, Diagnostic> {
        let out_dir = self.out_dir.clone().or_else(|| env::var_os("OUT_DIR").map(PathBuf::from));
        out_dir.ok_or_else(|| {
            Diagnostic::new(Code::BadOption, "there is no `OUT_DIR` outside a build script")
                .help("set the output directory with `out_dir`")
        })
    }
}

/// Tells cargo to run the build script again when a file changes, if this is a build script.
fn watch(file: &Path) {
    if let (Some(_), Some(out_dir)) = (env::var_os("CARGO"), env::var_os("OUT_DIR"))
        && is_source(file, Path::new(&out_dir))
    {
        println!("cargo::rerun-if-changed={}", file.display());
    }
}

/// Prints warnings for cargo, one line for each kind, if this is a build script.
fn warn(warnings: &[Diagnostic]) {
    if env::var_os("CARGO").is_some() && env::var_os("OUT_DIR").is_some() {
        let lines = Diagnostics(warnings.to_vec()).text().lines();
        lines.iter().for_each(|line| println!("cargo::warning={line}"));
    }
}

/// Returns whether a file is a source of a build script that writes to `out_dir`. A file that the
/// script wrote itself is younger than the script's start, for which cargo would run the script
/// again although nothing changed.
fn is_source(file: &Path, out_dir: &Path) -> bool {
    !file.starts_with(out_dir)
}

/// The modules that builders of this process wrote, each with its model.
fn written() -> MutexGuard<'static, BTreeMap<PathBuf, PathBuf>> {
    static WRITTEN: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the module was written before, from the same model. Returns an error if it was
/// written from another one: the program would include the wrong model.
fn is_written(module: &Path, model: &Path) -> Result<bool, Diagnostic> {
    match written().get(module) {
        Some(other) if other != model => Err(taken(
            module,
            "two models would be written to one file",
        )
        .note(format!("{} and {}", other.display(), model.display()))),
        found => Ok(found.is_some()),
    }
}

/// The error for a module that a builder wrote before.
fn taken(module: &Path, message: &str) -> Diagnostic {
    Diagnostic::new(Code::BadOption, message)
        .help("give one of them another name with `name`")
        .within(module.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_does_not_watch_the_files_that_a_build_script_writes() {
        let out_dir = Path::new("/target/debug/build/digits-0123/out");
        for (file, source) in [
            ("../models/digits.onnx", true),
            ("/target/digits.onnx", true),
            ("/target/debug/build/digits-0123/out/digits.onnx", false),
            ("/target/debug/build/digits-0123/out/deep/digits.data", false),
        ] {
            assert_eq!(is_source(Path::new(file), out_dir), source, "{file}");
        }
    }
}
