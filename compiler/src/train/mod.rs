//! Adds training information to inference models.
//!
//! [`Prepare`] writes what ONNX calls training information: an algorithm, which computes a loss
//! from an output and a label, its gradient by the weights, and new weights; the variables of the
//! optimizer; and a graph that initializes all variables. It changes neither the model's own graph
//! nor its operator set: a loss that needs a newer operator set is written in older operators, or
//! is an error.
//!
//! The optimizer's counter, `step`, is the number of previous steps. `Adagrad` and `Momentum`
//! receive it as `T`; `Adam` receives one more, so that the bias is corrected in the first step, as
//! in PyTorch and Keras. ONNX's `Adam` adds `epsilon` before that correction, PyTorch after it. So
//! the same `epsilon` has `1 / √(1 - beta2ᵗ)` times the effect in ONNX, which matters where
//! gradients are about as small.
//!
//! By default, training is of the inference graph: `BatchNormalization` uses the statistics in the
//! file (its scale and bias are trained), and `Dropout` is the identity. In training mode
//! ([`Prepare::training_mode`]), the step has its own copies of these nodes and the nodes after
//! them.

mod analysis_model;
mod detached;
mod glob;
mod graph_builder;
mod initial;
mod loss;
mod loss_nodes;
mod loss_target;
mod mode;
mod names;
mod optimizer;
mod seeds;
mod statistic;
mod survey;

pub use detached::Kept;
pub use initial::Initial;
pub use loss::Loss;
pub use optimizer::{Method, Optimizer, Setting};

use crate::{
    check,
    choice::Choice,
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    domain::canonical,
    import::{self, Imported, Settings},
    ir::{Attribute, Domain},
    passes,
};
use graph_builder::Draft;
use loss_target::Subject;
use onnxc_proto::{
    Bytes, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, TrainingInfoProto,
};
use seeds::Seeds;
use std::{collections::HashSet, path::PathBuf};
use survey::{Survey, Variable};

/// The first version of the file format that has training information.
const FORMAT: i64 = 7;

/// The first version of the file format in which initializers need not be inputs.
const FREE_INITIALIZERS: i64 = 4;

/// Adds training information to a model.
///
/// ```
/// use onnxc::train::{Loss, Method, Optimizer, Prepare, Setting};
///
/// let model = r#"<ir_version: 10, opset_import: ["" : 21]>
///     line (float[batch, 2] x) => (float[batch, 1] y)
///     <float[2, 1] weight = {0, 0}> { y = MatMul(x, weight) }"#;
/// let optimizer = Optimizer::from(Method::Momentum).with(Setting::LearningRate, 0.1)?;
/// let model = Prepare::new(Loss::Mse, optimizer).bytes(model.into())?;
/// assert_eq!(model.training_info[0].update_binding[1].key(), "weight");
/// # Ok::<(), onnxc::diag::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prepare {
    loss: Loss,
    optimizer: Optimizer,
    output: Option<String>,
    trainable: Vec<String>,
    initial: Initial,
    seed: Option<u32>,
    training_mode: bool,
    directory: Option<PathBuf>,
}

impl Prepare {
    /// Trains everything that looks like a weight, with this loss and optimizer.
    pub fn new(loss: Loss, optimizer: impl Into<Optimizer>) -> Prepare {
        Prepare {
            loss,
            optimizer: optimizer.into(),
            output: None,
            trainable: Vec::new(),
            initial: Initial::default(),
            seed: None,
            training_mode: false,
            directory: None,
        }
    }

    /// Selects the output that the loss applies to; by default the only one.
    pub fn output(mut self, name: &str) -> Prepare {
        self.output = Some(name.to_owned());
        self
    }

    /// Trains the weights that match a pattern, in addition to those of other patterns. `*` matches
    /// any text, `?` any character. A full name matches any initializer of type `float` or
    /// `double`, whether or not it looks like a weight.
    ///
    /// A weight has axes, and the loss has a gradient by it. Statistics of normalizations, bounds
    /// of `Clip`, exponents, divisors, subtrahends and masks are not weights.
    pub fn trainable(mut self, pattern: &str) -> Prepare {
        self.trainable.push(pattern.to_owned());
        self
    }

    /// Sets the initialization of weights.
    pub fn initial(mut self, initial: Initial) -> Prepare {
        self.initial = initial;
        self
    }

    /// Uses training mode in steps: `BatchNormalization` normalizes by the statistics of its input
    /// and updates its running statistics, which become variables that inference uses; `Dropout`
    /// drops.
    pub fn training_mode(mut self, on: bool) -> Prepare {
        self.training_mode = on;
        self
    }

    /// Fixes the seeds of dropout and initialization, which count from this number. Without it, the
    /// program that trains sets the seed (`set_seed` of a generated module).
    pub fn seed(mut self, seed: u32) -> Prepare {
        self.seed = Some(seed);
        self
    }

    /// Sets the directory of the model's external data.
    pub fn directory(mut self, directory: PathBuf) -> Prepare {
        self.directory = Some(directory);
        self
    }

    /// Returns the training model of a model file, with all tensors in the messages.
    ///
    /// # Errors
    ///
    /// Returns all errors of the model, or else of the settings.
    pub fn bytes(&self, model: Bytes) -> Result<ModelProto, Diagnostics> {
        self.model(import::decode(model)?)
    }

    /// Returns the training model of messages.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Prepare::bytes`].
    pub fn model(&self, mut model: ModelProto) -> Result<ModelProto, Diagnostics> {
        let settings = Settings { directory: self.directory.clone(), ..Settings::default() };
        let imported = import::graph(&model, &check::model(&model), &settings)?;
        let (subject, opset) = self.subject(&model, &imported)?;
        import::gather(&mut model, self.directory.clone())?;
        raise(&mut model);
        let main = model.graph.take().unwrap_or_default();
        let result = self.train(&mut model, &main, subject, opset);
        model.graph = Some(main);
        result?;
        // The result is checked like any other model.
        import::graph(&model, &check::model(&model), &settings)?;
        Ok(model)
    }

    /// Returns the target of the loss and the version of the main operator set.
    fn subject(
        &self,
        model: &ModelProto,
        imported: &Imported,
    ) -> Result<(Subject, i64), Diagnostics> {
        let diagnostics = DiagnosticSink::default();
        let untrainable = |message: String| Diagnostic::new(Code::Untrainable, message);
        if !model.training_info.is_empty() {
            let diagnostic = untrainable("the model has training information already".into());
            diagnostics
                .push(diagnostic.within("`training_info`").help("give the model without it"));
        }
        let sets = model.opset_import.iter();
        let main = sets.filter(|set| canonical(set.domain()).is_empty());
        let opset = main.map(|set| set.version()).next().unwrap_or_default();
        let since = self.loss.since();
        if opset < since {
            let name = self.loss.word();
            let message = format!("`{name}` needs version {since} of ONNX's operators or newer");
            let found = format!("the model imports version {opset}");
            let help = "convert the model to a newer version";
            diagnostics.push(untrainable(message).within("`opset_import`").note(found).help(help));
        }
        let graph = model.graph.as_ref().expect("import saw a graph");
        if survey::candidates(graph).is_empty() {
            let message = "the model has no initializers of type float or double".to_owned();
            let help = "weights in `Constant` nodes or of other types are no variables; \
                        export the model with float weights as initializers";
            diagnostics.push(untrainable(message).help(help));
        } else {
            survey::unknown(&self.trainable, graph).into_iter().for_each(|f| diagnostics.push(f));
        }
        let output = self.output.as_deref();
        let subject = loss_target::find(&imported.graph, graph, output, self.loss, opset);
        let subject = diagnostics.keep(subject);
        diagnostics.finish()?;
        Ok((subject.expect("there is no diagnostic"), opset))
    }

    /// Adds the training information to a model without its graph.
    fn train(
        &self,
        model: &mut ModelProto,
        main: &GraphProto,
        mut subject: Subject,
        opset: i64,
    ) -> Result<(), Diagnostics> {
        let mut draft = Draft::new("step", names::taken(main));
        let declared = names::sizes(main);
        let (mut seeds, mut statistics) = (Seeds::new(self.seed), Vec::new());
        if self.training_mode {
            let graphs = (&*model, main);
            let written = mode::write(&mut draft, graphs, &subject.name, opset, &mut seeds)?;
            (subject.name, statistics) = written;
        }
        let loss = loss_nodes::write(&mut draft, self.loss, &subject, &declared, opset)?;
        let variables = self.variables(model, main, draft.so_far(), &loss)?;
        mode::hold_apart(&variables, &statistics)?;
        let gradients = gradient(&mut draft, main, &variables, &loss);
        let mut updates = optimizer::write(&mut draft, &self.optimizer, &variables, &gradients);
        updates.extend(statistics.iter().map(|statistic| statistic.update(&mut draft)));
        let algorithm = draft.finish();
        let (own, from) = (&algorithm.initializer, (&mut seeds, opset));
        let first = initial::write(self.initial, from, &variables, &statistics, &updates, own);
        let (first, bound) = first;
        let update = |update: &optimizer::Update| initial::binding(&update.variable, &update.value);
        model.training_info.push(TrainingInfoProto {
            initialization: Some(first).filter(|_| !bound.is_empty()),
            initialization_binding: bound,
            update_binding: updates.iter().map(update).collect(),
            algorithm: Some(algorithm),
        });
        Ok(())
    }

    /// Returns the trained variables, found by differentiating by all candidates.
    fn variables(
        &self,
        model: &ModelProto,
        main: &GraphProto,
        loss: &GraphProto,
        written: &loss_nodes::Written,
    ) -> Result<Vec<Variable>, Diagnostics> {
        let candidates = survey::candidates(main);
        let names: Vec<String> = candidates.iter().map(|tensor| tensor.name().to_owned()).collect();
        let settings = Settings { directory: self.directory.clone(), ..Settings::default() };
        let values = analysis_model::of_values(model, main, loss, &names);
        let graph = import::graph(&values, &check::model(&values), &settings)?.graph;
        let graph = passes::separate_dropout_masks(&graph)?;
        let survey = Survey::of(&graph, names.clone());
        let mut chosen = survey.chosen(&self.trainable)?;
        let xs: Vec<String> = chosen.iter().map(|&i| names[i].clone()).collect();
        if !xs.is_empty() {
            let probe = analysis_model::of_gradient(model, main, loss, &xs, &written.loss);
            let probe = import::graph(&probe, &check::model(&probe), &settings)?.graph;
            let idle = passes::find_zero_gradients(&probe)?;
            let is_idle = |name: &String| {
                xs.iter().position(|x| x == name).is_some_and(|i| idle.contains(&i))
            };
            if let Some(name) = self.trainable.iter().find(|name| is_idle(name)) {
                let message = format!("the loss has no derivative by {}", quoted(name));
                return Err(Diagnostic::new(Code::GradientDeadPath, message).into());
            }
            chosen.retain(|&i| !is_idle(&names[i]));
        }
        let variables: Vec<Variable> = chosen.iter().filter_map(|&i| survey.variable(i)).collect();
        if variables.is_empty() {
            let message = "the loss depends on no initializer that looks like a weight";
            let help = "name what is to be trained: `--trainable NAME`";
            return Err(Diagnostic::new(Code::Untrainable, message).help(help).into());
        }
        Ok(variables)
    }
}

/// Writes a `Gradient` of the loss by all variables.
fn gradient(
    draft: &mut Draft,
    main: &GraphProto,
    variables: &[Variable],
    loss: &loss_nodes::Written,
) -> Vec<String> {
    let names = |names: &[String]| {
        Attribute::Strings(names.iter().map(|name| name.clone().into_bytes()).collect())
    };
    let xs: Vec<String> = variables.iter().map(|variable| variable.name.clone()).collect();
    // The other values that the loss depends on, without weights that stay fixed.
    let mut zs = names::inputs_of(main, draft.so_far(), &loss.loss);
    zs.push(loss.label.clone());
    let gradients: Vec<String> =
        variables.iter().map(|x| draft.name(&format!("{}.gradient", x.name))).collect();
    let inputs: Vec<&str> = xs.iter().chain(&zs).map(String::as_str).collect();
    let loss = loss.loss.clone().into_bytes();
    let attributes = vec![("xs", names(&xs)), ("zs", names(&zs)), ("y", Attribute::String(loss))];
    draft.training("Gradient", "gradient", &inputs, &gradients, attributes);
    for (variable, gradient) in variables.iter().zip(&gradients) {
        draft.declare(gradient, variable.dtype, &variable.shape);
    }
    gradients
}

/// Imports the training operators, in a version of the file format with training information.
fn raise(model: &mut ModelProto) {
    if model.ir_version() < FREE_INITIALIZERS
        && let Some(graph) = &mut model.graph
    {
        // They had to be inputs, so callers could now set them.
        let constants: HashSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
        graph.input.retain(|input| !constants.contains(input.name()));
    }
    model.ir_version = Some(model.ir_version().max(FORMAT));
    let domain = Domain::Training.to_string();
    if !model.opset_import.iter().any(|set| set.domain() == domain) {
        model.opset_import.push(OperatorSetIdProto { domain: Some(domain), version: Some(1) });
    }
}
