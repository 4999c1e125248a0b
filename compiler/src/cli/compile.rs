//! `onnxc MODEL -o FILE`: compiles a model.

use super::{
    message,
    options::{OfModule, Shared},
};
use onnxc::{
    Optimize, Options, Precision, Weights,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    file, ident, passes,
    plan::{self, Rematerialized},
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The options of compiling.
#[derive(clap::Args, Debug)]
pub struct Compile {
    /// The model
    pub model: Option<PathBuf>,
    /// The module to write, or the directory for a module that is named after the model; the
    /// weights go beside it. Without it, the module is printed. A module that is printed, or
    /// written to a pipe or a device, contains its weights
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
pub fn run(command: &Compile) -> ExitCode {
    let Some(model) = &command.model else {
        eprintln!("error: no model was given (`onnxc model.onnx -o model.rs`)");
        return ExitCode::FAILURE;
    };
    match try_run(command, model) {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            message::print(&diagnostics);
            ExitCode::FAILURE
        }
    }
}

fn try_run(command: &Compile, model: &Path) -> Result<(), Diagnostics> {
    let module = command.output.as_deref().map(|output| module_path(output, model));
    // A device or a pipe has no files beside it, so it gets the weights in the module.
    let file = module.as_deref().filter(|path| file::is_replaced(path));
    let options = command.options(file)?;
    let start = std::time::Instant::now();
    let wanted = |pass: &str| command.print_after.iter().any(|wanted| wanted == pass);
    let mut output = onnxc::Compiler::new(&options)
        .observe(|pass, graph| {
            if wanted(pass) {
                outln!("# after {pass}\n{graph}");
            }
        })
        .compile(model)?;
    message::print_warnings(std::mem::take(&mut output.warnings));
    if wanted(PLAN) {
        output.plans.all().iter().for_each(|plan| outln!("# the plan\n{plan}"));
    }
    let Some(path) = &module else {
        out!("{}", output.module.code);
        return Ok(());
    };
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
    let ends_in_separator = output.to_string_lossy().ends_with(std::path::is_separator);
    if !ends_in_separator && !output.is_dir() {
        return output.to_owned();
    }
    let stem = model.file_stem().unwrap_or_default().to_string_lossy();
    output.join(format!("{}.rs", ident::snake(&stem)))
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
