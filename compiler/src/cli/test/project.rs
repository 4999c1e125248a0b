//! A Cargo project in which models are compiled to Rust, built and run.

use super::{
    super::{
        cargo::{self, Build},
        runtime::Runtime,
    },
    exchange::{decode, encode},
    folder::DataSet,
    glue::{self, glue},
    parallel,
};
use onnxc::{
    CompiledModel, Options, Weights,
    diag::{Code, Diagnostic, Diagnostics},
    emit,
    value::Value,
    write_if_changed,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The number of models in one crate, which is small enough to build crates in parallel.
const PER_CRATE: usize = 50;

/// The most jobs that one process runs, and the most memory of their models.
const MOST_OF_BATCH: usize = 100;
const BATCH_BYTES: u64 = 256 << 20;

/// The memory of a process besides that of its models.
const PROCESS_BYTES: u64 = 256 << 20;

/// The profiles of the workspace: fast kernels, and no debug information, which takes time to link.
const PROFILES: &str = "
[profile.dev]
debug = false
incremental = false

[profile.dev.package.onnxc-runtime]
opt-level = 2

[profile.release]
debug = false
";

/// The section of a manifest that silences warnings about generated code.
pub const NO_WARNINGS: &str = "
[lints.rust]
warnings = \"allow\"
";

/// The project.
pub struct Project {
    root: PathBuf,
    runtime: Runtime,
    release: bool,
    /// The models in it, by number, with the memory of one run, in bytes.
    models: BTreeMap<usize, u64>,
    /// Whether any model needs the image decoders.
    images: bool,
    /// The program that runs the models, once it is built.
    runner: PathBuf,
}

/// A compiled model.
pub struct Part {
    number: usize,
    reads_images: bool,
    /// The size of weights and arena.
    bytes: u64,
}

impl Project {
    /// Creates an empty project in `root`.
    pub fn new(root: PathBuf, runtime: Runtime, release: bool) -> Project {
        Project {
            root,
            runtime,
            release,
            models: BTreeMap::new(),
            images: false,
            runner: PathBuf::new(),
        }
    }

    /// Compiles the model file at `path` to the files of model `number`, which [`Self::add`] makes
    /// a part of the project. `learns` selects the functions that train it. The weights are read
    /// when the model runs: linkers have limits.
    pub fn compile(
        &self,
        number: usize,
        path: &Path,
        options: &Options,
        learns: bool,
    ) -> Result<(CompiledModel, Part), Diagnostics> {
        let mut options = options.clone();
        options.name = Some(format!("model_{number}"));
        options.stem.clone_from(&options.name);
        options.weights = Weights::Caller;
        let mut output = onnxc::Compiler::new(&options).compile(path)?;
        let directory = self.crate_of(number).join("src");
        let CompiledModel { plans, module, weights_file, .. } = &mut output;
        let plan = plans.infer();
        let style = options.style(plan, &format!("model_{number}"))?;
        let signature = emit::signature(plan, &style);
        let weights = weights_file.as_ref().map(|name| directory.join(name));
        module.code += &match plans.training() {
            Some(training) if learns => {
                glue::run_training(&signature.model, training, &emit::signatures(training, &style))
            }
            _ => glue(&signature, &glue::types(plan), &glue::shapes(plan)),
        };
        module.code += &glue::new_model(&signature.model, weights.as_deref());
        fs::create_dir_all(&directory).map_err(|error| io_diagnostic(&directory, &error))?;
        let part = Part {
            number,
            reads_images: plans.call_kernels_of("image"),
            bytes: (plan.weight_bytes + plan.arena_bytes) as u64,
        };
        output.write(&directory.join(format!("model_{number}.rs")))?;
        Ok((output, part))
    }

    /// Adds a compiled model.
    pub fn add(&mut self, part: &Part) {
        self.images |= part.reads_images;
        self.models.insert(part.number, part.bytes);
    }

    /// Builds the project. Removes the models whose code does not compile, and returns the errors
    /// of rustc for each.
    pub fn build(&mut self) -> Result<BTreeMap<usize, String>, Diagnostics> {
        let mut failed = BTreeMap::new();
        loop {
            self.write()?;
            let found = self.cargo_build()?;
            if found.is_empty() {
                return Ok(failed);
            }
            for (number, text) in found {
                self.models.remove(&number);
                failed.insert(number, text);
            }
        }
    }

    /// Runs model `number` on each data set. Models of a batch run in one process, and batches in
    /// parallel.
    pub fn run(&self, jobs: &[(usize, &DataSet)]) -> io::Result<Vec<Result<Vec<Value>, String>>> {
        let exchange = self.root.join("exchange");
        fs::create_dir_all(&exchange)?;
        let batches = self.batches(jobs);
        let bytes = |batch: &Range<usize>| {
            let models: BTreeSet<usize> = batch.clone().map(|i| jobs[i].0).collect();
            PROCESS_BYTES + models.iter().filter_map(|number| self.models.get(number)).sum::<u64>()
        };
        let run = |_, batch: &Range<usize>| self.run_batch(&exchange, jobs, batch.clone());
        let found = parallel::map(&batches, bytes, run, |_, _| {});
        Ok(found.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Divides jobs into ranges that one process runs. The data sets of a model stay together,
    /// because they share its state.
    fn batches(&self, jobs: &[(usize, &DataSet)]) -> Vec<Range<usize>> {
        let mut batches: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0;
        for (i, &(number, _)) in jobs.iter().enumerate() {
            let is_same = i > 0 && jobs[i - 1].0 == number;
            let own = self.models.get(&number).copied().unwrap_or(0);
            match batches.last_mut() {
                Some(last) if is_same => last.end = i + 1,
                Some(last) if last.len() < MOST_OF_BATCH && bytes + own < BATCH_BYTES => {
                    last.end = i + 1;
                    bytes += own;
                }
                _ => {
                    batches.push(i..i + 1);
                    bytes = own;
                }
            }
        }
        batches
    }

    /// Runs the jobs of a batch in one process, and if it ends early, in further ones.
    fn run_batch(
        &self,
        exchange: &Path,
        jobs: &[(usize, &DataSet)],
        batch: Range<usize>,
    ) -> io::Result<Vec<Result<Vec<Value>, String>>> {
        let place = |i: usize, end: &str| exchange.join(format!("{i}.{end}"));
        for i in batch.clone() {
            fs::write(place(i, "in"), encode(&jobs[i].1.inputs))?;
            for end in ["out", "out.failed"] {
                drop(fs::remove_file(place(i, end)));
            }
        }
        let mut results = Vec::new();
        while results.len() < batch.len() {
            let open = batch.start + results.len()..batch.end;
            let mut list = String::new();
            for i in open.clone() {
                let (input, output) = (place(i, "in"), place(i, "out"));
                list += &format!("{}\t{}\t{}\n", jobs[i].0, input.display(), output.display());
            }
            let path = place(batch.start, "list");
            fs::write(&path, list)?;
            Command::new(&self.runner).arg(&path).stderr(Stdio::null()).status()?;
            for i in open {
                if let Ok(bytes) = fs::read(place(i, "out")) {
                    results.push(Ok(decode(&bytes)));
                } else if let Ok(text) = fs::read_to_string(place(i, "out.failed")) {
                    results.push(Err(text));
                } else {
                    // The process ended in this model. A new process runs the remaining ones.
                    results.push(Err("the process ended while the model ran".into()));
                    break;
                }
            }
        }
        Ok(results)
    }

    fn crate_of(&self, number: usize) -> PathBuf {
        self.root.join(format!("models_{}", number / PER_CRATE))
    }

    fn write(&self) -> Result<(), Diagnostics> {
        let mut crates: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &number in self.models.keys() {
            crates.entry(number / PER_CRATE).or_default().push(number);
        }
        let images: &[&str] = if self.images { &["image"] } else { &[] };
        let runtime = self.runtime.dependency(images);
        let members: Vec<String> = crates.keys().map(|n| format!("\"models_{n}\"")).collect();
        let members = members.join(", ");
        let workspace = format!(
            "[workspace]\nresolver = \"3\"\n\
             members = [\"runner\", \"runner_io\", \"runner_models\", {members}]\n{PROFILES}"
        );
        self.file("Cargo.toml", &workspace)?;
        self.member("runner_io", &runtime, include_str!("runner_io.rs"), "lib.rs")?;
        let mut dependencies = String::from("runner_io.path = \"../runner_io\"");
        let mut arms = String::new();
        for (n, numbers) in &crates {
            let ranges = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" | ");
            dependencies += &format!("\nmodels_{n}.path = \"../models_{n}\"");
            arms += &format!("        {ranges} => models_{n}::run(number, input),\n");
            let depends = format!("runner_io.path = \"../runner_io\"\n{runtime}");
            self.member(&format!("models_{n}"), &depends, &crate_source(numbers), "lib.rs")?;
        }
        let source = format!(
            "pub fn run(number: usize, input: &[u8]) -> Result<Vec<u8>, String> {{\n    \
            match number {{\n\
            {arms}        _ => Err(\"there is no such model\".into()),\n    \
            }}\n\
            }}\n"
        );
        self.member("runner_models", &dependencies, &source, "lib.rs")?;
        let depends = "runner_models.path = \"../runner_models\"";
        self.member("runner", depends, include_str!("runner_main.rs"), "main.rs")
    }

    fn member(
        &self,
        name: &str,
        depends: &str,
        source: &str,
        file: &str,
    ) -> Result<(), Diagnostics> {
        let manifest = format!(
            "[package]\n\
            name = \"{name}\"\n\
            version = \"0.0.0\"\n\
            edition = \"2024\"\n\
            \n\
            [dependencies]\n\
            {depends}\n\
            {NO_WARNINGS}"
        );
        self.file(&format!("{name}/Cargo.toml"), &manifest)?;
        self.file(&format!("{name}/src/{file}"), source)
    }

    fn file(&self, path: &str, text: &str) -> Result<(), Diagnostics> {
        let path = self.root.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|error| io_diagnostic(directory, &error))?;
        }
        Ok(write_if_changed(&path, text.as_bytes())?)
    }

    /// Builds the project once, and returns the errors of rustc for models that do not compile.
    fn cargo_build(&mut self) -> Result<BTreeMap<usize, String>, Diagnostics> {
        let profile = if self.release { "--profile=release" } else { "--profile=dev" };
        let text = match cargo::build(&self.root, "runner", &["--keep-going", profile])? {
            Build::Program(path) => {
                self.runner = path;
                return Ok(BTreeMap::new());
            }
            Build::Failed(text) => text,
        };
        let mut found: BTreeMap<usize, String> = BTreeMap::new();
        for message in text.split("\n\n").filter(|message| message.contains("error")) {
            if let Some(number) = model_named(message) {
                found.entry(number).or_insert_with(|| message.trim().to_owned());
            }
        }
        found.retain(|number, _| self.models.contains_key(number));
        if found.is_empty() {
            return Err(self.runtime.diagnose(&text).into());
        }
        Ok(found)
    }
}

/// The number of the model in whose file rustc reports an error.
fn model_named(message: &str) -> Option<usize> {
    let place = message.split("--> ").nth(1)?;
    let (_, file) = place.split_once("model_")?;
    file.split_once(".rs:")?.0.parse().ok()
}

fn io_diagnostic(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Io, error.to_string()).within(path.display().to_string())
}

fn crate_source(numbers: &[usize]) -> String {
    let modules: String =
        numbers.iter().map(|n| format!("#[rustfmt::skip]\nmod model_{n};\n")).collect();
    let arms: String =
        numbers.iter().map(|n| format!("        {n} => model_{n}::run(&inputs),\n")).collect();
    format!(
        "{modules}\n\
        pub fn run(number: usize, input: &[u8]) -> Result<Vec<u8>, String> {{\n    \
        let inputs = runner_io::read(input);\n    \
        let outputs = match number {{\n\
        {arms}        _ => Err(\"there is no such model\".into()),\n    \
        }};\n    \
        Ok(runner_io::write(&outputs?))\n\
        }}\n"
    )
}
