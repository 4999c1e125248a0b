//! `onnxc MODEL -o FILE`: compiles models.

use super::{
    files, message,
    options::{OfModule, Shared},
    progress,
};
use onnxc::{
    Optimize, Options, Precision, Weights,
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    file, ident, passes,
    plan::{self, Rematerialized},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The options of compiling.
#[derive(clap::Args, Debug)]
pub struct Compile {
    /// The models
    #[arg(value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    /// The module to write, or the directory for modules that are named after their models; the
    /// weights go beside them. Several models need a directory. Without it, or with `-`, the module
    /// is printed.
    /// A module that is printed, or written to a pipe or a device, contains its weights
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    of_module: OfModule,
    #[arg(long, value_name = "PASS", help = printed())]
    print_after: Vec<String>,
    /// Print statistics
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the command.
pub fn run(command: &Compile) -> Result<ExitCode, Diagnostics> {
    let jobs = jobs(command)?;
    let mut all_compile = true;
    for (model, module) in jobs {
        if let Err(diagnostics) = compile(command, model, module) {
            message::print(&diagnostics);
            all_compile = false;
        }
    }
    Ok(message::judge(all_compile))
}

/// Returns each model, and the path of its module. Without a path, the module is printed.
fn jobs(command: &Compile) -> Result<Vec<(&Path, Option<PathBuf>)>, Diagnostics> {
    let output = command.output.as_deref().filter(|path| !files::is_standard_output(path));
    if command.models.is_empty() {
        let message = "no model was given";
        let error = Diagnostic::new(Code::BadOption, message);
        return Err(error.help("name one: `onnxc model.onnx -o model.rs`").into());
    }
    if command.models.len() > 1 && !output.is_some_and(is_directory) {
        let message = "several models need a directory for their modules";
        return Err(Diagnostic::new(Code::BadOption, message).help("set `-o DIR`").into());
    }
    let (mut modules, diagnostics) = (BTreeMap::new(), DiagnosticSink::default());
    let mut jobs = Vec::new();
    for model in &command.models {
        let module = output.map(|output| module_path(output, model));
        if let Some(module) = &module
            && let Some(other) = modules.insert(module.clone(), model)
        {
            diagnostics.push(files::same_output(module, other, model));
        }
        jobs.push((model.as_path(), module));
    }
    diagnostics.finish()?;
    // The modules are in one folder.
    if let Some((_, Some(module))) = jobs.first() {
        file::check_folder(module)?;
    }
    Ok(jobs)
}

fn compile(command: &Compile, model: &Path, module: Option<PathBuf>) -> Result<(), Diagnostics> {
    // A device or a pipe has no files beside it, so it gets the weights in the module.
    let file = module.as_deref().filter(|path| file::is_replaced(path));
    let options = command.options(file)?;
    let start = std::time::Instant::now();
    progress::enter("compile", model.display().to_string());
    let wanted = |pass: &str| command.print_after.iter().any(|wanted| wanted == pass);
    let mut output = onnxc::Compiler::new(&options)
        .observe(|pass, graph| {
            progress::record_part(pass);
            if wanted(pass) {
                outln!("# after {pass}\n{graph}");
            }
        })
        .compile(model)?;
    progress::end_with_part("plan and emit");
    message::print_warnings(std::mem::take(&mut output.warnings));
    if wanted(PLAN) {
        output.plans.all().iter().for_each(|plan| outln!("# the plan\n{plan}"));
    }
    let Some(path) = &module else {
        out!("{}", output.module.code);
        return Ok(());
    };
    progress::enter("write", path.display().to_string());
    output.write(path)?;
    if options.precision != Precision::Full {
        super::precision::print(model, &options, output.plans.infer())?;
    }
    if command.verbose {
        let plan = output.plans.infer();
        let least =
            output.plans.all().into_iter().map(plan::memory::lower_bound).max().unwrap_or(0);
        let lines = output.module.code.lines().count();
        let arena = match plan.has_dynamic_arena {
            true => "an arena of free sizes".to_owned(),
            false => format!("{} bytes of arena ({least} live at once)", plan.arena_bytes),
        };
        eprintln!(
            "{lines} lines, {} bytes of weights, {arena}, {:.2} s",
            plan.weight_bytes,
            start.elapsed().as_secs_f64()
        );
        for Rematerialized { node, operations } in
            output.plans.all().into_iter().flat_map(|plan| &plan.rematerialized)
        {
            eprintln!("rematerialized: {node} ({operations} operations)");
        }
    }
    Ok(())
}

/// Returns the path of the module of `model`. `output` is the path itself, or the directory of a
/// module that is named after the model.
fn module_path(output: &Path, model: &Path) -> PathBuf {
    if !is_directory(output) {
        return output.to_owned();
    }
    let stem = model.file_stem().unwrap_or_default().to_string_lossy();
    output.join(format!("{}.rs", ident::snake(&stem)))
}

/// Returns whether `output` is a directory, or ends as one.
fn is_directory(output: &Path) -> bool {
    output.to_string_lossy().ends_with(std::path::is_separator) || output.is_dir()
}

impl Compile {
    /// The options of the compilation, for a module in `file`.
    fn options(&self, file: Option<&Path>) -> Result<Options, Diagnostic> {
        let mut options = self.shared.options()?;
        self.of_module.set(&mut options)?;
        if file.is_none() && options.weights == Weights::File {
            options.weights = Weights::Inline;
        }
        let stem = file.and_then(Path::file_stem);
        options.stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let stages: Vec<&str> = stages(options.optimize).chain([PLAN]).collect();
        self.print_after.iter().try_for_each(|wanted| is_among(&stages, wanted))?;
        Ok(options)
    }
}

/// The name of the plan for `--print-after`.
const PLAN: &str = "plan";

/// The graphs that can be printed: the imported one, and that after each pass.
pub fn stages(optimize: Optimize) -> impl Iterator<Item = &'static str> {
    ["import"].into_iter().chain(passes::pipeline(optimize).map(|pass| pass.name))
}

/// Returns an error if `wanted` is not in `stages`.
pub fn is_among(stages: &[&str], wanted: &str) -> Result<(), Diagnostic> {
    if stages.contains(&wanted) {
        return Ok(());
    }
    let message = format!("there is no pass {}", quoted(wanted));
    let note = format!("the passes: {}", stages.join(", "));
    let error = Diagnostic::new(Code::BadOption, message).note(note);
    Err(message::suggest(error, wanted, stages.iter().copied()))
}

/// The help of `--print-after`.
fn printed() -> String {
    let stages: Vec<&str> = stages(Optimize::Speed).collect();
    format!("Print the graph after this pass ({}), or the plan ({PLAN})", stages.join(", "))
}
