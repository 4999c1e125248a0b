//! Compiling models from a build script.

use crate::{
    ArenaIn, Compiler, Optimize, Options, Precision, Weights,
    diag::{Code, Diagnostic, Diagnostics},
    file::Replacement,
    ident,
    import::{Axis, Const, Defaults, Size},
    ir::Graph,
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
/// and in the program `include!(concat!(env!("OUT_DIR"), "/model.rs"));`.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `compile`"]
pub struct Builder {
    model: PathBuf,
    out_dir: Option<PathBuf>,
    options: Options,
}

/// What a builder wrote, and what it found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The module.
    pub module: PathBuf,
    /// The weights, where they stand in a file.
    pub weights: Option<PathBuf>,
    /// The bytes of memory that one run needs, beside what the caller gives and what stands on the
    /// heap as its size is free.
    pub arena_bytes: usize,
    /// The bytes of all weights.
    pub weight_bytes: usize,
    /// The multiplications of one run, each with the addition behind it; without those of nodes whose
    /// sizes are free.
    pub macs: u64,
    /// The calls that are done again, to need less memory.
    pub rematerialized: Vec<Rematerialized>,
}

impl Builder {
    /// A builder for the model file at `path`, which is relative to the package, where cargo starts
    /// build scripts.
    pub fn new(path: impl Into<PathBuf>) -> Builder {
        Builder { model: path.into(), out_dir: None, options: Options::default() }
    }

    /// Calls the model, its struct and what is written something else than its file, so that one
    /// model can be compiled in several ways: with `name("small")` the module is `small.rs`, and the
    /// struct `Small`.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        let name = name.into();
        self.options.stem = Some(name.clone());
        self.options.name = Some(name);
        self
    }

    /// Fixes the size of the dimension called `name`, as in `dim("batch", 8)`, or bounds it, so that
    /// the memory stays static: `dim("seq", 1..=32)`. One without a name is called after its input and
    /// axis: `input_0`.
    pub fn dim(mut self, name: impl Into<String>, size: impl Into<Size>) -> Builder {
        self.options.settings.dims.insert(name.into(), size.into());
        self
    }

    /// Says the axes of the input called `name`, whose number the model does not say: each has a
    /// size or a name, as in `[1.into(), 3.into(), "height".into(), "width".into()]`.
    pub fn shape(
        mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = Axis>,
    ) -> Builder {
        self.options.settings.shapes.insert(name.into(), axes.into_iter().collect());
        self
    }

    /// Makes an input a constant: a number, or several in brackets, as in `constant("sr", 8000)` and
    /// `constant("mean", "[0.5, 0.25]")`.
    pub fn constant(mut self, name: impl Into<String>, value: impl ToString) -> Builder {
        self.options.settings.consts.insert(name.into(), Const::Value(value.to_string()));
        self
    }

    /// Makes an input a constant: its default, the initializer of its name.
    pub fn default_constant(mut self, name: impl Into<String>) -> Builder {
        self.options.settings.consts.insert(name.into(), Const::Default);
        self
    }

    /// Says what becomes of inputs that have a default: arguments that may be left out, which is the
    /// default, or constants.
    pub fn defaults(mut self, defaults: Defaults) -> Builder {
        self.options.settings.defaults = defaults;
        self
    }

    /// Makes an input and an output the model's own state: a run finds at `past` what the run
    /// before gave as `present`.
    pub fn state(mut self, past: impl Into<String>, present: impl Into<String>) -> Builder {
        self.options.settings.states.insert(past.into(), present.into());
        self
    }

    /// Has a function of the program called for an operator, `com.acme::Clip`: the function of that
    /// path, from the root of a crate (`crate::clip`). `onnxc_runtime::custom` says what it is given.
    pub fn custom(mut self, operator: impl Into<String>, function: impl Into<String>) -> Builder {
        let operator = options::operator(&operator.into());
        self.options.settings.customs.insert(operator, function.into());
        self
    }

    /// Says the type of a value that such a function gives, where the model does not: `float[n, 10]`.
    pub fn value_type(mut self, name: impl Into<String>, ty: impl Into<String>) -> Builder {
        self.options.settings.types.insert(name.into(), ty.into());
        self
    }

    /// Changes the graph of the model before onnxc's own passes do: see [`crate::ir::replace`] and
    /// [`crate::ir::Edit`]. Passes run in the order in which they are given.
    pub fn pass(
        mut self,
        name: impl Into<String>,
        run: impl Fn(&Graph) -> Result<Graph, Diagnostics> + Send + Sync + 'static,
    ) -> Builder {
        self.options.passes.push(OwnPass::new(name, run));
        self
    }

    /// Says what matters most: time, which is the default, or space.
    pub fn optimize(mut self, optimize: Optimize) -> Builder {
        self.options.optimize = optimize;
        self
    }

    /// Says in how many bits constant weights stand: fewer than the model's make it smaller and less
    /// exact.
    pub fn precision(mut self, precision: Precision) -> Builder {
        self.options.precision = precision;
        self
    }

    /// Says where the weights stand: in a file beside the module, which is the default, or in it.
    pub fn weights(mut self, weights: Weights) -> Builder {
        self.options.weights = weights;
        self
    }

    /// Says where the arena is, the memory of a run. By default an arena of up to 64 KiB is in the
    /// model's struct, a larger one on the heap.
    pub fn arena(mut self, arena: ArenaIn) -> Builder {
        self.options.arena = Some(arena);
        self
    }

    /// Has the arena be of at most so many bytes: where it would be larger, values are computed again
    /// instead of being kept, which changes no result. [`Report::rematerialized`] says what that costs.
    pub fn max_arena(mut self, bytes: usize) -> Builder {
        self.options.max_arena = Some(bytes);
        self
    }

    /// Writes into `directory` instead of cargo's `OUT_DIR`.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.out_dir = Some(directory.into());
        self
    }

    /// Compiles the model. Files are written only where their bytes change, and cargo is told to
    /// run the build script again when the model does. Of a model in `OUT_DIR`, which it made
    /// itself, a build script says what that is made of.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the model, at once, and each with its place; and where another
    /// builder of the script wrote something else to the same file.
    pub fn compile(self) -> Result<Report, Diagnostics> {
        let file = self.model.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
        let stem = self.options.stem.as_deref().unwrap_or(&file);
        let module = self.directory()?.join(format!("{}.rs", ident::snake(stem)));
        let written_before = is_written(&module, &self.model)?;
        watch(&self.model);
        let compiled = Compiler::new(&self.options).compile(&self.model)?;
        compiled.files.iter().for_each(|file| watch(&self.model.with_file_name(file)));
        let (weights, files) = compiled.stage_files(&module)?;
        if written_before && files.iter().any(Replacement::is_other) {
            let message = "one model would be written to one file in two ways";
            return Err(taken(&module, message).note(self.model.display().to_string()).into());
        }
        files.into_iter().try_for_each(Replacement::put)?;
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
        })
    }

    /// Where to write. Large models take long, so this is looked for before one is compiled.
    fn directory(&self) -> Result<PathBuf, Diagnostic> {
        let out_dir = self.out_dir.clone().or_else(|| env::var_os("OUT_DIR").map(PathBuf::from));
        out_dir.ok_or_else(|| {
            Diagnostic::new(Code::BadOption, "there is no `OUT_DIR` outside a build script")
                .help("say where to write with `out_dir`")
        })
    }
}

/// Has cargo run the build script again when a file changes, where this is a build script.
fn watch(file: &Path) {
    if let (Some(_), Some(out_dir)) = (env::var_os("CARGO"), env::var_os("OUT_DIR"))
        && is_source(file, Path::new(&out_dir))
    {
        println!("cargo::rerun-if-changed={}", file.display());
    }
}

/// Whether a build script that writes to `out_dir` finds a file, and did not make it itself. What it
/// makes is younger than its start, for which cargo would run it again although nothing changed.
fn is_source(file: &Path, out_dir: &Path) -> bool {
    !file.starts_with(out_dir)
}

/// The modules that builders of this process wrote, each with its model.
fn written() -> MutexGuard<'static, BTreeMap<PathBuf, PathBuf>> {
    static WRITTEN: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the module was written before, of the same model. Refuses to write over that of another
/// one, which a program would take for its own.
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

/// The diagnostic that a builder wrote the module before.
fn taken(module: &Path, message: &str) -> Diagnostic {
    Diagnostic::new(Code::BadOption, message)
        .help("call one of them something else with `name`")
        .within(module.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_does_not_watch_what_the_build_script_made() {
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
