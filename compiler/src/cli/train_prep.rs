//! `onnxc train-prep MODEL --loss LOSS --optimizer OPTIMIZER -o FILE`: a model that can be trained.

use super::files;
use onnxc::{
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
    #[arg(long, value_enum)]
    loss: LossArg,
    /// How weights follow their gradients
    #[arg(long, value_enum)]
    optimizer: MethodArg,
    /// The output of which the loss is; needed where the model has several
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Train the initializers of this name, in which `*` is any text and `?` any character; by
    /// default all that look like weights: of type float or double, with axes, no statistics, bounds
    /// or masks, and with a derivative
    #[arg(long, value_name = "PATTERN")]
    trainable: Vec<String>,
    /// What weights are at first
    #[arg(long, value_enum, default_value = "kaiming")]
    init: InitialArg,
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

#[derive(clap::Args)]
struct Settings {
    /// How far a step goes [default: 0.01; adam, adamw: 0.001]
    #[arg(long)]
    lr: Option<f64>,
    /// How much of the step before goes into one [default: 0.9; rmsprop: 0]
    #[arg(long)]
    momentum: Option<f64>,
    /// How much of the mean of gradients adam and adamw keep [default: 0.9]
    #[arg(long)]
    beta1: Option<f64>,
    /// How much of the mean of their squares adam and adamw keep [default: 0.999]
    #[arg(long)]
    beta2: Option<f64>,
    /// What keeps adam, adamw, adagrad and rmsprop from dividing by zero [default: 1e-8; adagrad:
    /// 1e-10]
    #[arg(long)]
    eps: Option<f64>,
    /// How much smaller weights get by themselves [default: 0; adamw: 0.01]
    #[arg(long)]
    weight_decay: Option<f64>,
    /// How much of the mean of squares rmsprop keeps [default: 0.99]
    #[arg(long)]
    alpha: Option<f64>,
    /// By how much the rate of adagrad falls: lr / (1 + step * decay) [default: 0]
    #[arg(long)]
    lr_decay: Option<f64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LossArg {
    /// The mean square of the difference
    Mse,
    /// The mean size of the difference
    Mae,
    /// Half the square of differences up to 1, from there on a straight line
    Huber,
    /// That of a class among others; the output is logits, or a `Softmax` of them
    CrossEntropy,
    /// That of each output for itself, wanted to be 0 or 1; the output is logits, or a `Sigmoid` of
    /// them
    Bce,
    /// The negated logarithm of a class's probability; the output is logarithms of probabilities
    Nll,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum MethodArg {
    /// Down the gradient
    Sgd,
    /// With a part of the step before
    Momentum,
    /// The same, looking ahead
    Nesterov,
    /// With means of gradients and of their squares, corrected as PyTorch does
    Adam,
    /// The same, with a decay of weights by itself
    Adamw,
    /// With the sum of squares
    Adagrad,
    /// With the mean of squares
    Rmsprop,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum InitialArg {
    /// Uniform by the number of terms (He and others), biases zero: for `Relu`
    Kaiming,
    /// Uniform by the numbers of terms and results (Glorot and Bengio), biases zero: for `Tanh` and
    /// `Sigmoid`
    Xavier,
    /// As in the file
    Keep,
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
    let mut prepare = Prepare::new(loss(options.loss), optimizer(options)?)
        .initial(initial(options.init))
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
    let said = &options.settings;
    let mut optimizer = Optimizer::from(method(options.optimizer));
    let diagnostics = DiagnosticSink::default();
    for (setting, value) in [
        (Setting::LearningRate, said.lr),
        (Setting::Momentum, said.momentum),
        (Setting::Beta1, said.beta1),
        (Setting::Beta2, said.beta2),
        (Setting::Epsilon, said.eps),
        (Setting::WeightDecay, said.weight_decay),
        (Setting::Alpha, said.alpha),
        (Setting::RateDecay, said.lr_decay),
    ] {
        let Some(value) = value else { continue };
        if let Some(told) = diagnostics.keep(optimizer.clone().with(setting, value)) {
            optimizer = told;
        }
    }
    diagnostics.finish()?;
    Ok(optimizer)
}

fn loss(loss: LossArg) -> Loss {
    match loss {
        LossArg::Mse => Loss::Mse,
        LossArg::Mae => Loss::Mae,
        LossArg::Huber => Loss::Huber,
        LossArg::CrossEntropy => Loss::CrossEntropy,
        LossArg::Bce => Loss::Bce,
        LossArg::Nll => Loss::Nll,
    }
}

fn method(method: MethodArg) -> Method {
    match method {
        MethodArg::Sgd => Method::Sgd,
        MethodArg::Momentum => Method::Momentum,
        MethodArg::Nesterov => Method::Nesterov,
        MethodArg::Adam => Method::Adam,
        MethodArg::Adamw => Method::AdamW,
        MethodArg::Adagrad => Method::Adagrad,
        MethodArg::Rmsprop => Method::RmsProp,
    }
}

fn initial(initial: InitialArg) -> Initial {
    match initial {
        InitialArg::Kaiming => Initial::Kaiming,
        InitialArg::Xavier => Initial::Xavier,
        InitialArg::Keep => Initial::Keep,
    }
}
