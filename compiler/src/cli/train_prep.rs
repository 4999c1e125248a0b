//! `onnxc train-prep MODEL --loss LOSS --optimizer OPTIMIZER -o FILE`: makes a model trainable.

use super::{
    files,
    options::{number, one_of},
};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use onnxc::{
    choice::Choice,
    diag::{DiagnosticSink, Diagnostics},
    train::{Initial, Loss, Method, Optimizer, Prepare, Setting},
};
use std::path::{Path, PathBuf};

/// Makes a model trainable: adds a loss, gradients, an optimizer and initial values
///
/// The graph of the model stays unchanged. The file gets ONNX's training information: a step, which
/// reads the inputs and a `label`, returns the `loss` and updates the weights, and a graph that
/// computes the initial weights.
///
/// By default, a step trains what inference computes: `BatchNormalization` uses the statistics in
/// the file (its scale and bias are trained), and `Dropout` drops nothing. With `--training-mode`,
/// both behave as in training.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file to write, as text if its name ends in `.onnxtxt`, or `-` to print text
    #[arg(short = 'o', value_name = "FILE")]
    to: PathBuf,
    /// The loss. Labels are the indices of classes (int64) for `cross-entropy` and `nll`, else they
    /// have the type and shape of the output
    #[arg(long, value_parser = one_of::<Loss>())]
    loss: Loss,
    /// The optimizer
    #[arg(long, value_parser = one_of::<Method>())]
    optimizer: Method,
    /// The output for which the loss is computed; required if the model has several
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Train the initializers whose names match this pattern, in which `*` is any text and `?` any
    /// character; by default all that look like weights: those of type float or double that have
    /// axes and a gradient, and are not statistics, bounds or masks
    #[arg(long, value_name = "PATTERN")]
    trainable: Vec<String>,
    /// The initial values of weights
    #[arg(long, value_parser = one_of::<Initial>(), default_value_t)]
    init: Initial,
    /// Let `BatchNormalization` normalize by the statistics of its input and update the running
    /// ones, and let `Dropout` drop at random
    #[arg(long)]
    training_mode: bool,
    /// The first seed for dropout and initial values; by default, the program that trains sets the
    /// seed
    #[arg(long)]
    seed: Option<u32>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings of the optimizer that are set.
struct Settings(Vec<(Setting, f64)>);

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let settings = Setting::WORDS.iter().map(|(word, help)| {
            let arg = Arg::new(*word).long(*word).help(*help);
            arg.value_name("NUMBER").value_parser(number)
        });
        command.args(settings)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Settings, clap::Error> {
        let given = Setting::ALL
            .iter()
            .filter_map(|setting| Some((*setting, *matches.get_one(setting.word())?)));
        Ok(Settings(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let mut prepare = Prepare::new(options.loss, optimizer(options)?)
        .initial(options.init)
        .training_mode(options.training_mode)
        .directory(options.model.parent().map(Path::to_owned).unwrap_or_default());
    if let Some(seed) = options.seed {
        prepare = prepare.seed(seed);
    }
    if let Some(output) = &options.output {
        prepare = prepare.output(output);
    }
    for pattern in &options.trainable {
        prepare = prepare.trainable(pattern);
    }
    let model = prepare.bytes(files::bytes(&options.model)?);
    let model = model.map_err(|all| all.within(&options.model.display().to_string()))?;
    Ok(files::write_model(&options.to, model)?)
}

/// The optimizer with the settings.
fn optimizer(options: &Options) -> Result<Optimizer, Diagnostics> {
    let mut optimizer = Optimizer::from(options.optimizer);
    let diagnostics = DiagnosticSink::default();
    for &(setting, value) in &options.settings.0 {
        if let Some(told) = diagnostics.keep(optimizer.clone().with(setting, value)) {
            optimizer = told;
        }
    }
    diagnostics.finish()?;
    Ok(optimizer)
}
