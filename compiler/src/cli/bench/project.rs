//! The project of a program that times a model.

use super::{inputs, labels::Labels, timed::Timed};
use crate::cli::{
    cargo::{self, Build},
    inputs::{Inputs, callable, in_order},
    progress,
    runtime::Runtime,
    test::{exchange, project::NO_WARNINGS},
};
use onnxc::{
    CompiledModel, Compiler, Options, Weights,
    diag::{Code, Diagnostic, Diagnostics},
    emit::{self, ObservedNode},
    value::Value,
    write_if_changed,
};
use std::{
    env, fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    process,
};

/// A model that is timed, and how it is compiled.
pub struct Subject<'s> {
    /// The model.
    pub model: &'s Path,
    /// The options of its module. With `profile`, the program can measure each node.
    pub compile: Options,
    /// The inputs.
    pub given: Given<'s>,
    /// The algorithm, if a step of training is timed: a name, or the only one.
    pub step: Option<Option<&'s str>>,
    /// The number of threads.
    pub threads: NonZero<usize>,
}

/// The inputs of a model that is timed.
pub enum Given<'g> {
    /// Files, as `NAME=FILE`. Without any, those of the first data set, or generated ones.
    Files(&'g [String]),
    /// Values.
    Values(&'g Inputs),
}

/// A program that times a model.
pub struct Program {
    /// Its path. Its folder holds the inputs.
    pub path: PathBuf,
    /// The multiply-adds of a call.
    pub macs: u64,
    /// The nodes that it can measure.
    pub nodes: Vec<ObservedNode>,
}

/// Calls `act` with a folder: `scratch`, or a temporary one that is removed afterwards.
pub fn in_scratch<T>(
    scratch: Option<&Path>,
    act: impl FnOnce(&Path) -> Result<T, Diagnostics>,
) -> Result<T, Diagnostics> {
    let temporary = env::temp_dir().join(format!("onnxc-bench-{}", process::id()));
    let root = scratch.unwrap_or(&temporary);
    let result = std::path::absolute(root)
        .map_err(|error| io_diagnostic(root, &error).into())
        .and_then(|root| act(&root));
    if scratch.is_none() {
        // A failure does no harm: the system cleans up its temporary directory.
        drop(fs::remove_dir_all(&temporary));
    }
    result
}

impl<'s> Subject<'s> {
    /// Inference on one thread.
    pub fn inference(model: &'s Path, compile: Options, given: Given<'s>) -> Subject<'s> {
        Subject { model, compile, given, step: None, threads: NonZero::<usize>::MIN }
    }

    /// Compiles the model, and builds the program in the folder `root`.
    pub fn build(self, runtime: &Runtime, root: &Path) -> Result<Program, Diagnostics> {
        progress::enter("compile", self.model.display().to_string());
        let (macs, nodes) = self.write(runtime, root)?;
        progress::enter("build", "");
        let built = match cargo::build(root, "bench", &["--release"])? {
            Build::Program(path) => path,
            Build::Failed(messages) => return Err(runtime.diagnose(&messages).into()),
        };
        let path = root.join("bench").with_extension(env::consts::EXE_EXTENSION);
        fs::copy(&built, &path).map_err(|error| io_diagnostic(&path, &error))?;
        progress::enter("run", self.model.display().to_string());
        Ok(Program { path, macs, nodes })
    }

    /// Writes the project: the model's module, and the program that times it. Returns the
    /// multiply-adds of a call, and the nodes that it can measure.
    fn write(
        &self,
        runtime: &Runtime,
        root: &Path,
    ) -> Result<(u64, Vec<ObservedNode>), Diagnostics> {
        let mut compile = self.compile.clone();
        compile.name = Some("model".into());
        compile.stem.clone_from(&compile.name);
        compile.weights = Weights::File;
        let mut labels = Labels::default();
        let mut output =
            Compiler::new(&compile).observe(|_, graph| labels.record(graph)).compile(self.model)?;
        let CompiledModel { plans, module, .. } = &mut output;
        let plan = plans.infer();
        callable(plan)?;
        let style = compile.style(plan, "model")?;
        let timed = match self.step {
            None if compile.profile => Timed::profiled(plan, &style),
            None => Timed::inference(plan, &style),
            Some(name) => Timed::step(plans.training(), name, &style)?,
        };
        let values = self.inputs(&timed, &labels)?;
        let source = root.join("src");
        fs::create_dir_all(&source).map_err(|error| io_diagnostic(&source, &error))?;
        let manifest = self.manifest(runtime, plans.call_kernels_of("image"));
        write_if_changed(&root.join("Cargo.toml"), manifest.as_bytes())?;
        write_if_changed(&source.join("main.rs"), include_bytes!("program.rs"))?;
        write_if_changed(&source.join("runner_io.rs"), include_bytes!("../test/runner_io.rs"))?;
        module.code += &timed.code();
        let macs = timed.plan.macs_of(&inputs::sizes(timed.plan, &values));
        let nodes = emit::nodes(timed.plan);
        output.write(&source.join("model.rs"))?;
        write_if_changed(&root.join("inputs"), &exchange::encode(&values))?;
        Ok((macs, nodes))
    }

    /// Returns the inputs for which the model is timed.
    fn inputs(&self, timed: &Timed<'_>, labels: &Labels) -> Result<Vec<Value>, Diagnostics> {
        let values = match (&self.given, self.step) {
            (Given::Values(values), _) => in_order(timed.plan, values),
            (Given::Files(files), None) => inputs::of(self.model, files, timed.plan),
            (Given::Files(files), Some(_)) => {
                inputs::of_step(self.model, files, timed.plan, labels)
            }
        };
        values.map_err(|diagnostics| diagnostics.within(&self.model.display().to_string()))
    }

    /// Returns the manifest of the project. `images` enables the image decoders.
    fn manifest(&self, runtime: &Runtime, images: bool) -> String {
        let images = images.then_some("image");
        let threads = (self.threads.get() > 1).then_some("threads");
        let features: Vec<&str> = images.into_iter().chain(threads).collect();
        let runtime = runtime.dependency(&features);
        format!(
            "[package]\n\
            name = \"bench\"\n\
            version = \"0.0.0\"\n\
            edition = \"2024\"\n\
            \n\
            [workspace]\n\
            \n\
            [dependencies]\n\
            {runtime}\n\
            \n\
            [profile.release]\n\
            strip = true\n\
            {NO_WARNINGS}"
        )
    }
}

/// The error of a file or folder.
pub fn io_diagnostic(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Io, error.to_string()).within(path.display().to_string())
}
