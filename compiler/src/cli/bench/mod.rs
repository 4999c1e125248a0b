//! `onnxc bench`: times a compiled model.

pub(super) mod inputs;
mod labels;
mod process;
mod timed;

use super::{
    cargo::{self, Build},
    options::{Shared, number},
    progress,
    runtime::Runtime,
    test::{exchange, project::NO_WARNINGS},
};
use labels::Labels;
use onnxc::{
    CompiledModel, Weights,
    diag::{Code, Diagnostic, Diagnostics},
    value::Value,
    write_if_changed,
};
use process::Process;
use serde_json::json;
use std::{
    env, fs,
    num::NonZero,
    path::{Path, PathBuf},
};
use timed::Timed;

/// Compiles a model to Rust, builds it with full optimization, and times it
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file of an input: `.npy`, or `.pb`. By default the first data set beside the model;
    /// without one, random floating-point numbers, integers with the value 1, and random labels
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<String>,
    /// Time a step of training, which starts from initial values; a model with several algorithms
    /// needs the name of one
    #[arg(long, value_name = "ALGORITHM", num_args = 0..=1, require_equals = true)]
    step: Option<Option<String>>,
    #[command(flatten)]
    shared: Shared,
    /// The number of threads
    #[arg(long, value_name = "N", default_value = "1", value_parser = thread_count)]
    threads: NonZero<usize>,
    /// The time for which calls are timed, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = number)]
    seconds: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// The source of the runtime library, or its version in the registry; by default the source
    /// that fits this program
    #[arg(long, value_name = "PATH|VERSION")]
    runtime: Option<String>,
    /// The directory in which the code is built; by default a temporary one that is removed
    /// afterwards. The program that is timed stays there, as `bench`, with its `inputs`
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Build only
    #[arg(long, requires = "scratch")]
    no_run: bool,
}

/// Parses the number of threads.
fn thread_count(text: &str) -> Result<NonZero<usize>, &'static str> {
    text.parse().map_err(|_| "expected a number of threads, 1 or more")
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let temporary = env::temp_dir().join(format!("onnxc-bench-{}", std::process::id()));
    let root = options.scratch.as_deref().unwrap_or(&temporary);
    let result = std::path::absolute(root)
        .map_err(|error| io_diagnostic(root, &error).into())
        .and_then(|root| bench(options, &root));
    if options.scratch.is_none() {
        // A failure does no harm: the system cleans up its temporary directory.
        drop(fs::remove_dir_all(&temporary));
    }
    result
}

fn bench(options: &Options, root: &Path) -> Result<(), Diagnostics> {
    let runtime = Runtime::find(options.runtime.as_deref())?;
    progress::enter("compile", options.model.display().to_string());
    let macs = write(options, &runtime, root)?;
    progress::enter("build", "");
    let built = match cargo::build(root, "bench", &["--release"])? {
        Build::Program(path) => path,
        Build::Failed(messages) => return Err(runtime.diagnose(&messages).into()),
    };
    let program = root.join("bench").with_extension(env::consts::EXE_EXTENSION);
    fs::copy(&built, &program).map_err(|error| io_diagnostic(&program, &error))?;
    if options.no_run {
        return Ok(());
    }
    progress::enter("run", options.model.display().to_string());
    let name = options.model.file_stem().unwrap_or_default().to_string_lossy();
    let measured = Measured::of(&program, options.threads, options.seconds)
        .map_err(|error| Diagnostic::new(Code::Io, error).within("the program that is timed"))?;
    measured.print(&name, macs, options.json);
    Ok(())
}

/// Writes the project: the model's module, and the program that times it. Returns the multiply-adds
/// of a call.
fn write(options: &Options, runtime: &Runtime, root: &Path) -> Result<u64, Diagnostics> {
    let mut compile = options.shared.options()?;
    compile.name = Some("model".into());
    compile.stem.clone_from(&compile.name);
    compile.weights = Weights::File;
    let mut labels = Labels::default();
    let mut output = onnxc::Compiler::new(&compile)
        .observe(|_, graph| labels.record(graph))
        .compile(&options.model)?;
    let CompiledModel { plans, module, .. } = &mut output;
    let plan = plans.infer();
    super::inputs::callable(plan)?;
    let style = compile.style(plan, "model")?;
    let timed = match &options.step {
        None => Timed::inference(plan, &style),
        Some(name) => Timed::step(plans.training(), name.as_deref(), &style)?,
    };
    let values = inputs(options, &timed, &labels)?;
    let source = root.join("src");
    fs::create_dir_all(&source).map_err(|error| io_diagnostic(&source, &error))?;
    let images = plans.call_kernels_of("image");
    write_if_changed(&root.join("Cargo.toml"), manifest(options, runtime, images).as_bytes())?;
    write_if_changed(&source.join("main.rs"), include_bytes!("program.rs"))?;
    write_if_changed(&source.join("runner_io.rs"), include_bytes!("../test/runner_io.rs"))?;
    module.code += &timed.code();
    let macs = timed.plan.macs_of(&inputs::sizes(timed.plan, &values));
    output.write(&source.join("model.rs"))?;
    write_if_changed(&root.join("inputs"), &exchange::encode(&values))?;
    Ok(macs)
}

/// Returns the inputs for which the model is timed.
fn inputs(
    options: &Options,
    timed: &Timed<'_>,
    labels: &Labels,
) -> Result<Vec<Value>, Diagnostics> {
    let (model, given) = (&options.model, &options.input);
    let values = match options.step {
        None => inputs::of(model, given, timed.plan),
        Some(_) => inputs::of_step(model, given, timed.plan, labels),
    };
    values.map_err(|diagnostics| diagnostics.within(&model.display().to_string()))
}

/// Returns the manifest of the project. `images` enables the image decoders.
fn manifest(options: &Options, runtime: &Runtime, images: bool) -> String {
    let runtime = runtime.dependency();
    let images = if images { ", \"image\"" } else { "" };
    let threads = if options.threads.get() > 1 { ", \"threads\"" } else { "" };
    format!(
        "[package]\n\
        name = \"bench\"\n\
        version = \"0.0.0\"\n\
        edition = \"2024\"\n\
        \n\
        [workspace]\n\
        \n\
        [dependencies]\n\
        onnxc-runtime = {{ {runtime}, features = [\"half\", \"std\"{images}{threads}] }}\n\
        \n\
        [profile.release]\n\
        strip = true\n\
        {NO_WARNINGS}"
    )
}

/// Measured times and memory.
struct Measured {
    /// The number of threads.
    threads: usize,
    /// The time of each call in microseconds, in ascending order.
    us: Vec<f64>,
    /// The time from the start of the program to its first answer, in microseconds.
    load_us: f64,
    /// The peak of one core, in GFLOP/s.
    peak: f64,
    /// The peak memory of the program, in megabytes.
    memory: f64,
}

impl Measured {
    /// Runs the program, which has its inputs beside it, and measures it.
    fn of(program: &Path, threads: NonZero<usize>, seconds: f64) -> Result<Measured, String> {
        /// The milliseconds of untimed calls, in which the processor raises its clock.
        const WARM_UP: u32 = 200;
        const LEAST: u32 = 10;
        let inputs = program.with_file_name("inputs");
        let mut program = Process::start(program, &inputs, threads)?;
        let load_us = program.load.as_secs_f64() * 1e6;
        program.ask(&format!("w {WARM_UP}"))?;
        let calls = program.ask(&format!("c {} {LEAST}", (seconds * 1e3) as u64))?;
        let calls = calls["us"].as_array().ok_or("the program reported no times")?;
        let mut us: Vec<f64> = calls.iter().filter_map(serde_json::Value::as_f64).collect();
        us.sort_by(f64::total_cmp);
        let peak = program.ask("p")?["gflops"].as_f64().unwrap_or(0.0);
        let memory = program.ask("s")?["peak_rss_mb"].as_f64().unwrap_or(0.0);
        Ok(Measured { threads: threads.get(), us, load_us, peak, memory })
    }

    /// Prints the measurements of a model with `macs` multiply-adds.
    fn print(&self, name: &str, macs: u64, as_json: bool) {
        let at = |share: f64| self.us[((self.us.len() - 1) as f64 * share).round() as usize];
        let (median, least, late) = (at(0.5), at(0.0), at(0.9));
        let gflops = 2.0 * macs as f64 / median / 1e3;
        let peak = self.peak * self.threads as f64;
        let share = if peak > 0.0 { gflops / peak } else { 0.0 };
        if as_json {
            let line = json!({
                "model": name,
                "threads": self.threads,
                "median_us": rounded(median),
                "min_us": rounded(least),
                "p90_us": rounded(late),
                "load_us": rounded(self.load_us),
                "gflops": rounded(gflops),
                "share_of_peak": rounded(share),
                "peak_rss_mb": rounded(self.memory),
            });
            return outln!("{line}");
        }
        outln!(
            "{name}: median {} us, least {} us, 90 % within {} us, of {} samples",
            rounded(median),
            rounded(least),
            rounded(late),
            self.us.len()
        );
        outln!(
            "{} GFLOP/s, {:.0} % of the {} that {} can do; first answer after {:.1} ms; {:.1} MB",
            rounded(gflops),
            share * 100.0,
            rounded(peak),
            if self.threads == 1 { "one core".into() } else { format!("{} cores", self.threads) },
            self.load_us / 1e3,
            self.memory
        );
    }
}

/// Rounds a number to four significant digits.
fn rounded(x: f64) -> f64 {
    let digits = if x > 0.0 { (3 - x.log10().floor() as i32).clamp(0, 12) } else { 0 };
    let unit = 10f64.powi(digits);
    (x * unit).round() / unit
}

fn io_diagnostic(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Io, error.to_string()).within(path.display().to_string())
}
