//! The stages that a model goes through, from a file to a module.
//!
//! | stage | from | to | function |
//! |---|---|---|---|
//! | decode | bytes | messages | [`import::decode`] |
//! | check | messages | diagnostics | [`check::model`] |
//! | import | checked messages | graphs | [`import::graph`], [`import::training`] |
//! | passes | graph | graph | [`passes::run`] |
//! | lower | graph | plan | [`ir::plan`] |
//! | finish | plans | plans with memory | [`plan::finish`] |
//! | emit | plans | module | [`emit::module`] |

use crate::{
    CompiledModel, Module, Options, check,
    diag::{Diagnostic, DiagnosticSink, Diagnostics, Severity},
    emit::{self, Source, Style, WeightsIn},
    export::{self, Draft, Types},
    file::{self, Replacement},
    import::{self, Imported},
    ir::{self, Graph},
    limits::Limit,
    passes::{self, OwnPass},
    plan::{self, Algorithm, Plan, Plans, Training},
    train,
};
use bytes::Bytes;
use onnxc_proto::ModelProto;
use proc_macro2::TokenStream;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Compiles models with one set of options.
///
/// Each method runs the stages up to one result: a module, plans, a graph, or diagnostics. All
/// report every diagnostic at once, each with its location. If there are warnings only, the method
/// succeeds, and [`Compiler::take_warnings`] returns them.
///
/// ```
/// use onnxc::{Compiler, Options};
///
/// let model = r#"<ir_version: 10, opset_import: ["" : 21]>
///     g (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }"#;
/// let plan = Compiler::new(&Options::default()).plan(model.into())?;
/// assert_eq!(plan.steps.len(), 1);
/// # Ok::<(), onnxc::diag::Diagnostics>(())
/// ```
pub struct Compiler<'a> {
    options: &'a Options,
    observer: Observer<'a>,
    warnings: DiagnosticSink,
}

/// A function that is called with the name of each pass and the graph after it.
type Observer<'a> = Box<dyn FnMut(&str, &Graph) + 'a>;

/// The diagnostics of a model.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Violations of the ONNX specification. A model without any is valid. Warnings are among them:
    /// the model compiles in spite of these.
    pub invalid: Vec<Diagnostic>,
    /// Reasons why a valid model cannot be compiled.
    pub unsupported: Vec<Diagnostic>,
    /// Warnings that are no violations: parts of the model that are not compiled as written.
    pub warnings: Vec<Diagnostic>,
}

/// The module of a model as items for a macro.
pub struct ModuleItems {
    /// The items.
    pub items: TokenStream,
    /// The warnings about the model.
    pub warnings: Vec<Diagnostic>,
    /// The external data files that were read, relative to the model's directory.
    pub files: Vec<PathBuf>,
}

/// Plans, and the external data files that were read for them.
struct Planned {
    plans: Plans,
    files: Vec<PathBuf>,
}

/// The graphs of a model.
enum Graphs {
    Inference(Imported),
    Training(Box<import::Training>),
}

impl<'a> Compiler<'a> {
    /// Creates a compiler with these options.
    #[must_use]
    pub fn new(options: &'a Options) -> Compiler<'a> {
        Compiler { options, observer: Box::new(|_, _| {}), warnings: DiagnosticSink::default() }
    }

    /// Calls `observer` with the graph after the import (named `import`) and after each pass.
    #[must_use]
    pub fn observe(self, observer: impl FnMut(&str, &Graph) + 'a) -> Compiler<'a> {
        Compiler { observer: Box::new(observer), ..self }
    }

    /// Returns the warnings about the models that were read since the last call.
    pub fn take_warnings(&mut self) -> Vec<Diagnostic> {
        self.warnings.take()
    }

    /// Compiles the model file at `path` to a module.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn compile(&mut self, path: &Path) -> Result<CompiledModel, Diagnostics> {
        self.options.validate()?;
        let model = read(path)?;
        let stem = path.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
        let options = self.options.clone().beside(path);
        let compiled = self.with_options(&options).compile_file(model, &stem, Some(path));
        let place = path.display().to_string();
        let compiled = compiled.map_err(|all| all.within(&place))?;
        let warnings = Diagnostics(compiled.warnings).within(&place).0;
        Ok(CompiledModel { model: Some(path.to_owned()), warnings, ..compiled })
    }

    /// Compiles the bytes of a model file to a module. `stem` is the file's name without extension.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn compile_bytes(
        &mut self,
        model: Bytes,
        stem: &str,
    ) -> Result<CompiledModel, Diagnostics> {
        self.compile_file(model, stem, None)
    }

    fn compile_file(
        &mut self,
        model: Bytes,
        stem: &str,
        path: Option<&Path>,
    ) -> Result<CompiledModel, Diagnostics> {
        let (Planned { plans, files }, sha256) = self.plan_and_hash(&model)?;
        let source = self.source(sha256, path, &files);
        let style = Style { source, ..self.options.style(plans.infer(), stem)? };
        if style.weights == WeightsIn::Module {
            self.fit_in_module(plans.infer())?;
        }
        let module = emit::module(&plans, &style);
        self.limit_lines(&module)?;
        let weights_file = match style.weights {
            WeightsIn::File(name) | WeightsIn::Caller(name) if emit::has_weights(&plans) => {
                Some(name)
            }
            WeightsIn::File(_) | WeightsIn::Caller(_) | WeightsIn::Module => None,
        };
        let warnings = self.take_warnings();
        Ok(CompiledModel { plans, module, weights_file, files, warnings, model: None })
    }

    /// Compiles the bytes of the model file at `path` to the items of a module. The weights are
    /// written to the file `weights`, or if there is none they are in the items.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model, or an error if the weights cannot be
    /// written.
    pub fn module_items(
        &mut self,
        model: Bytes,
        path: &Path,
        weights: Option<&Path>,
    ) -> Result<ModuleItems, Diagnostics> {
        let (Planned { plans, files }, sha256) = self.plan_and_hash(&model)?;
        let source = self.source(sha256, Some(path), &files);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let style = Style { source, ..self.options.style(plans.infer(), &stem)? };
        let weights = match weights.and_then(|file| Some((file, file.to_str()?))) {
            Some((file, name)) => {
                if emit::has_weights(&plans) {
                    let write = |out: &mut dyn Write| emit::write_weights(&plans.all(), out);
                    Replacement::of(file, write)?.put()?;
                }
                WeightsIn::File(name.to_owned())
            }
            None => {
                self.fit_in_module(plans.infer())?;
                WeightsIn::Module
            }
        };
        let style = Style { weights, ..style };
        let (items, warnings) = (emit::items(&plans, &style), self.take_warnings());
        Ok(ModuleItems { items, warnings, files })
    }

    /// Returns an error if the weights are too large for source text.
    fn fit_in_module(&self, plan: &Plan) -> Result<(), Diagnostic> {
        let limits = &self.options.settings.limits;
        if plan.weight_bytes <= limits.get(Limit::InlineBytes) {
            return Ok(());
        }
        let message = format!("{} bytes of weights do not fit in a module", plan.weight_bytes);
        Err(limits.exceeded(Limit::InlineBytes, message).help(
            "write them to a file: `onnxc model.onnx -o model.rs`, or a build script; or raise the \
             limit with `--limit inline-bytes=N`",
        ))
    }

    /// Returns an error if a module is too long.
    fn limit_lines(&self, module: &Module) -> Result<(), Diagnostic> {
        let (limits, lines) = (&self.options.settings.limits, module.code.lines().count());
        let most = limits.get(Limit::Lines);
        if lines <= most {
            return Ok(());
        }
        let message = format!("the module has {lines} lines, and {most} is the limit");
        Err(limits.exceeded(Limit::Lines, message))
    }

    /// Checks whether the model file at `path` is valid, and whether it can be compiled.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn check(&mut self, path: &Path) -> Result<CheckReport, Diagnostic> {
        let model = read(path)?;
        let options = self.options.clone().beside(path);
        let report = self.with_options(&options).check_bytes(model);
        Ok(report.within(&path.display().to_string()))
    }

    /// Checks whether the bytes of a model file are valid, and whether they can be compiled.
    pub fn check_bytes(&mut self, model: Bytes) -> CheckReport {
        let omissions = match import::decode(model.clone()) {
            Ok(model) => check::omissions(&model).diagnostics,
            Err(_) => Vec::new(),
        };
        let errors = self.plans(model).err().map_or(Vec::new(), |diagnostics| diagnostics.0);
        let mut report = CheckReport::default();
        for diagnostic in self.take_warnings().into_iter().chain(omissions).chain(errors) {
            let list = match (diagnostic.code.is_invalidity(), diagnostic.severity) {
                (true, _) => &mut report.invalid,
                (false, Severity::Error) => &mut report.unsupported,
                (false, Severity::Warning) => &mut report.warnings,
            };
            // Two stages may report the same error at the same location.
            if !list.contains(&diagnostic) {
                list.push(diagnostic);
            }
        }
        report
    }

    /// Plans a model file: inference, and training if the model has training information.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn plans(&mut self, model: Bytes) -> Result<Plans, Diagnostics> {
        Ok(self.plan_model(model)?.plans)
    }

    /// Plans the inference of a model file. The variables of a trainable model become constants.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn plan(&mut self, model: Bytes) -> Result<Plan, Diagnostics> {
        self.options.validate()?;
        let graph = self.import(model)?.graph;
        self.plan_inference(graph)
    }

    /// Plans the inference and training of a model file. Returns `None` if the model has no
    /// training information.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn training_plans(&mut self, model: Bytes) -> Result<Option<Training>, Diagnostics> {
        self.options.validate()?;
        let model = import::decode(model)?;
        let checked = check::model(&model);
        let graphs = import::training(&model, &checked, &self.options.settings)?;
        let Some(mut graphs) = graphs else { return Ok(None) };
        self.accept(std::mem::take(&mut graphs.warnings))?;
        self.plan_training(graphs).map(Some)
    }

    /// Imports the graph of a model file, without running any pass.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the model.
    pub fn import(&self, model: Bytes) -> Result<Imported, Diagnostics> {
        self.import_message(&import::decode(model)?)
    }

    /// Simplifies the graph of a model file. The result has only ONNX's own operators, so that
    /// [`export::model`] can write it.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the model.
    pub fn optimize(&mut self, model: Bytes) -> Result<Graph, Diagnostics> {
        self.optimize_message(&import::decode(model)?)
    }

    /// Simplifies a model file as [`Self::optimize`] does, and returns the messages, with the types
    /// of all values. Training information is kept, with the names to which it refers.
    /// Documentation, metadata and the parameters of quantization are kept for values that no pass
    /// changed.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the model, or an error if the meaning of its training information
    /// would change.
    pub fn optimize_model(&mut self, model: Bytes) -> Result<ModelProto, Diagnostics> {
        self.optimize_model_with(model, Types::All)
    }

    /// Simplifies a model file as [`Self::optimize_model`] does, and returns the messages, with
    /// these types of intermediate values.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub fn optimize_model_with(
        &mut self,
        model: Bytes,
        types: Types,
    ) -> Result<ModelProto, Diagnostics> {
        let mut model = import::decode(model)?;
        let is_read_again = types == Types::All || export::has_annotations(&model);
        let read = is_read_again.then(|| model.clone());
        let settings = &self.options.settings;
        let mut kept = None;
        if !model.training_info.is_empty() {
            self.import_message(&model)?;
            import::gather(&mut model, settings.directory.clone())?;
            kept = Some(train::Kept::taken(&mut model)?);
        }
        let mut draft = Draft::of(&self.optimize_message(&model)?)?;
        let is_training = kept.is_some();
        kept.map_or(Ok(()), |kept| kept.put_back(&mut draft.model))?;
        if let Some(read) = &read {
            let directory = &settings.directory;
            // The model is right for other sizes than the user's.
            if types == Types::All && !settings.fixes_sizes() {
                draft.declare(read, directory.clone());
            }
            draft.annotate(read, directory.clone());
        }
        let model = draft.with(types);
        if is_training {
            // Sizes and constants are fixed by now, so the settings for them would match nothing.
            let settings = import::Settings {
                customs: settings.customs.clone(),
                types: settings.types.clone(),
                ..import::Settings::default()
            };
            import::graph(&model, &check::model(&model), &settings)?;
        }
        Ok(model)
    }

    /// Keeps warnings for [`Self::take_warnings`].
    ///
    /// # Errors
    ///
    /// Returns the warnings as errors if the options deny them.
    fn accept(&self, warnings: Vec<Diagnostic>) -> Result<(), Diagnostics> {
        if self.options.deny_warnings && !warnings.is_empty() {
            let deny = |warning: Diagnostic| {
                let error = Diagnostic { severity: Severity::Error, ..warning };
                error.note("`--deny-warnings` makes this warning an error")
            };
            return Err(Diagnostics(warnings.into_iter().map(deny).collect()));
        }
        warnings.into_iter().for_each(|warning| self.warnings.push(warning));
        Ok(())
    }

    /// Plans a model while another thread hashes its bytes. Without optimization, as in a build
    /// script, hashing takes about as long as planning.
    fn plan_and_hash(&mut self, model: &Bytes) -> Result<(Planned, String), Diagnostics> {
        std::thread::scope(|scope| {
            let hash = scope.spawn(|| file::sha256(model));
            let planned = self.plan_model(model.clone())?;
            Ok((planned, hash.join().expect("hashing does not panic")))
        })
    }

    /// Describes a model file for the header of a module, as [`Compiler::compile`] does.
    pub fn source_of(&self, model: &Bytes, path: &Path) -> Source {
        self.source(file::sha256(model), Some(path), &[])
    }

    /// Describes the model file at `path` and the options for the header of a module.
    fn source(&self, sha256: String, path: Option<&Path>, files: &[PathBuf]) -> Source {
        let file = path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        Source {
            file,
            sha256,
            has_external_data: !files.is_empty(),
            options: self.options.to_arguments(),
        }
    }

    /// Returns a compiler with other options and the same observer.
    fn with_options<'b>(&'b mut self, options: &'b Options) -> Compiler<'b> {
        let warnings = self.warnings.clone();
        Compiler {
            options,
            observer: Box::new(|pass, graph| (self.observer)(pass, graph)),
            warnings,
        }
    }

    /// Checks and imports the main graph of a model.
    fn import_message(&self, model: &ModelProto) -> Result<Imported, Diagnostics> {
        self.import_with(model, &self.options.settings)
    }

    fn import_with(
        &self,
        model: &ModelProto,
        settings: &import::Settings,
    ) -> Result<Imported, Diagnostics> {
        let mut imported = import::graph(model, &check::model(model), settings)?;
        self.accept(std::mem::take(&mut imported.warnings))?;
        Ok(imported)
    }

    fn optimize_message(&mut self, model: &ModelProto) -> Result<Graph, Diagnostics> {
        let mut settings = self.options.settings.clone();
        settings.keeps_operators = true;
        let graph = self.import_with(model, &settings)?.graph;
        passes::run(graph, &self.options.passes, passes::STANDARD, &mut self.observer)
    }

    fn plan_model(&mut self, model: Bytes) -> Result<Planned, Diagnostics> {
        self.options.validate()?;
        match self.import_graphs(model)? {
            Graphs::Training(mut graphs) => {
                self.accept(std::mem::take(&mut graphs.warnings))?;
                let files = std::mem::take(&mut graphs.files);
                let plans = Plans::Training(Box::new(self.plan_training(*graphs)?));
                Ok(Planned { plans, files })
            }
            Graphs::Inference(Imported { graph, files, warnings }) => {
                self.accept(warnings)?;
                let plans = Plans::Inference(Box::new(self.plan_inference(graph)?));
                Ok(Planned { plans, files })
            }
        }
    }

    /// Imports the graphs of a model file. Its messages are freed here, so that the passes use
    /// their memory again. Freed after the passes, it would be scattered between the memory of the
    /// plans, which slows down every later allocation in large models.
    fn import_graphs(&self, model: Bytes) -> Result<Graphs, Diagnostics> {
        let model = import::decode(model)?;
        let (checked, settings) = (check::model(&model), &self.options.settings);
        Ok(match import::training(&model, &checked, settings)? {
            Some(graphs) => Graphs::Training(Box::new(graphs)),
            None => Graphs::Inference(import::graph(&model, &checked, settings)?),
        })
    }

    fn plan_inference(&mut self, graph: Graph) -> Result<Plan, Diagnostics> {
        let mut plan = self.lower(graph, &self.options.passes)?;
        plan::finish(&mut [&mut plan], self.options.max_arena)?;
        Ok(plan)
    }

    fn plan_training(&mut self, graphs: import::Training) -> Result<Training, Diagnostics> {
        let own = &self.options.passes;
        let mut training = Training {
            infer: self.lower(graphs.infer, own)?,
            reset: self.lower(graphs.reset, &[])?,
            init: self.lower(graphs.init, &[])?,
            steps: Vec::new(),
        };
        for (name, graph) in graphs.steps {
            training.steps.push(Algorithm { name, plan: self.lower(graph, own)? });
        }
        plan::finish(&mut training.plans_mut().collect::<Vec<_>>(), self.options.max_arena)?;
        Ok(training)
    }

    /// Runs the passes on a graph, those of the user first, and lowers the result.
    fn lower(&mut self, graph: Graph, own: &[OwnPass]) -> Result<Plan, Diagnostics> {
        let Options { optimize, precision, .. } = *self.options;
        let graph = passes::run(graph, own, passes::pipeline(optimize), &mut self.observer)?;
        ir::plan(&graph, optimize, precision, self.options.free_sizes())
    }
}

impl CheckReport {
    /// Locates every diagnostic inside `place`.
    fn within(self, place: &str) -> CheckReport {
        let within = |diagnostics| Diagnostics(diagnostics).within(place).0;
        CheckReport {
            invalid: within(self.invalid),
            unsupported: within(self.unsupported),
            warnings: within(self.warnings),
        }
    }
}

fn read(path: &Path) -> Result<Bytes, Diagnostic> {
    file::read(path).map_err(file::unreadable(path))
}
