//! `onnxc train-prep MODEL --loss LOSS --optimizer OPTIMIZER -o FILE`: a model that can be trained.

use super::{files, options::one_of};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use onnxc::{
    choice::Choice,
    diag::{DiagnosticSink, Diagnostics},
    export,
    train::{Initial, Loss, Method, Optimizer, Prepare, Setting},
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Makes of a model one that can be trained: loss, gradient, optimizer and first values
///
/// The model's own graph stays as it is. Beside it stands ONNX's training information: a step, which
/// takes the inputs and a `label`, gives the `loss` and makes new weights, and a graph that gives
/// weights their first values.
///
/// What inference does is what is trained: `BatchNormalization` keeps the statistics in the file (its
/// scale and bias are trained), and `Dropout` drops nothing; `--training-mode` has them do what they do
/// in training.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file to write, as text where its name ends in `.onnxtxt`
    #[arg(short = 'o', value_name = "FILE")]
    to: PathBuf,
    /// How far the output is from the label. Labels are numbers of classes (int64) for
    /// `cross-entropy` and `nll`, else of the type and shape of the output
    #[arg(long, value_parser = one_of::<Loss>())]
    loss: Loss,
    /// How weights follow their gradients
    #[arg(long, value_parser = one_of::<Method>())]
    optimizer: Method,
    /// The output of which the loss is; needed where the model has several
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Train the initializers of this name, in which `*` is any text and `?` any character; by
    /// default all that look like weights: of type float or double, with axes, no statistics, bounds
    /// or masks, and with a derivative
    #[arg(long, value_name = "PATTERN")]
    trainable: Vec<String>,
    /// What weights are at first
    #[arg(long, value_parser = one_of::<Initial>(), default_value_t)]
    init: Initial,
    /// Have a step normalize by the mean and variance of what `BatchNormalization` is given, and keep
    /// running ones for inference; and have it drop what `Dropout` is given, by chance
    #[arg(long)]
    training_mode: bool,
    /// From which number on the seeds of what is dropped and of first values count; without, the
    /// program that trains says what is drawn
    #[arg(long)]
    seed: Option<u32>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings of the optimizer that are given.
struct Settings(Vec<(Setting, f64)>);

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let settings = Setting::WORDS.iter().map(|(word, help)| {
            let arg = Arg::new(*word).long(*word).help(*help);
            arg.value_name("NUMBER").value_parser(value_parser!(f64))
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
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &Options) -> Result<(), Diagnostics> {
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
    Ok(export::write(model, &options.to)?)
}

/// The optimizer with all that was said of it.
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
