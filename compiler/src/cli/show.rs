//! `onnxc show MODEL`: prints a model in ONNX's textual syntax.

use super::{compile, files, options::Shared};
use onnxc::{
    diag::Diagnostics,
    import::{self, print},
};
use std::path::PathBuf;

/// The most elements of a constant that are printed by default.
const LONGEST: usize = 16;

/// Prints a model in ONNX's textual syntax, without changes
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// Print all elements of constants, so that the text can be parsed as a model again
    #[arg(long)]
    full: bool,
    /// Print the graph after this pass instead (`import` for the imported graph)
    #[arg(long, value_name = "PASS")]
    after: Option<String>,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    out!("{}", text(options)?);
    Ok(())
}

fn text(options: &Options) -> Result<String, Diagnostics> {
    let (bytes, place) = (files::bytes(&options.model)?, options.model.display().to_string());
    let Some(after) = &options.after else {
        let longest = if options.full { usize::MAX } else { LONGEST };
        let model = import::decode(bytes).map_err(|diagnostic| diagnostic.within(place))?;
        return Ok(print::model(&model, longest));
    };
    let settings = options.shared.options()?.beside(&options.model);
    let stages: Vec<&str> = compile::stages(settings.optimize).collect();
    compile::is_among(&stages, after)?;
    let mut text = None;
    let result = onnxc::Compiler::new(&settings)
        .observe(|pass, graph| {
            if pass == after {
                text = Some(graph.to_string());
            }
        })
        .plan(bytes);
    // Errors after the pass do not matter here.
    text.ok_or_else(|| result.err().expect("without errors every pass was observed").within(&place))
}
