//! Optimizers: methods, settings, and the nodes of a step.

use super::{graph_builder::Draft, survey::Variable};
use crate::{
    choice::{Choice, choices},
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    ir::Attribute,
    tensor::Tensor,
};

/// The update rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `x - lr g`.
    Sgd,
    /// `v = momentum v + g`, `x - lr v`: ONNX's `Momentum`.
    Momentum,
    /// Momentum with lookahead: `x - lr (g + momentum v)`.
    Nesterov,
    /// ONNX's `Adam` with bias correction: its `T` is 1 in the first step. ONNX adds epsilon before
    /// the correction, so it acts as PyTorch's epsilon divided by √(1 - beta2ᵀ): 32 times as large
    /// in the first step, equal in the limit.
    Adam,
    /// `Adam` with decoupled weight decay: variables are first multiplied by `1 - lr weight_decay`.
    AdamW,
    /// ONNX's `Adagrad`.
    Adagrad,
    /// `h = alpha h + (1 - alpha) g²`, `x - lr g / (√h + epsilon)`.
    RmsProp,
}

choices! { Method:
    Sgd "sgd" "Gradient descent";
    Momentum "momentum" "Gradient descent with momentum";
    Nesterov "nesterov" "Gradient descent with Nesterov momentum";
    Adam "adam" "Adam, with bias correction";
    AdamW "adamw" "Adam with decoupled weight decay";
    Adagrad "adagrad" "Adagrad: divides by the root of the sum of squared gradients";
    RmsProp "rmsprop" "RMSProp: divides by the root of the mean squared gradient";
}

/// A setting of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The learning rate.
    LearningRate,
    /// The momentum.
    Momentum,
    /// The decay rate of the mean gradient.
    Beta1,
    /// The decay rate of the mean squared gradient.
    Beta2,
    /// The constant that keeps divisors from zero.
    Epsilon,
    /// The weight decay.
    WeightDecay,
    /// The decay rate of the mean square.
    Alpha,
    /// The decay of the learning rate: `lr / (1 + step · decay)`.
    RateDecay,
}

choices! { Setting:
    LearningRate "lr" "Learning rate [default: 0.01; adam, adamw: 0.001]";
    Momentum "momentum" "Momentum [default: 0.9; rmsprop: 0]";
    Beta1 "beta1" "Decay rate of the mean gradient of adam and adamw [default: 0.9]";
    Beta2 "beta2" "Decay rate of the mean squared gradient of adam and adamw [default: 0.999]";
    Epsilon "eps" "Constant that keeps adam, adamw, adagrad and rmsprop from dividing by zero \
        [default: 1e-8; adagrad: 1e-10]";
    WeightDecay "weight-decay" "Weight decay [default: 0; adamw: 0.01]";
    Alpha "alpha" "Decay rate of the mean square of rmsprop [default: 0.99]";
    RateDecay "lr-decay" "Decay of the learning rate of adagrad: lr / (1 + step * decay) \
        [default: 0]";
}

impl Setting {
    /// Returns whether the setting is a decay rate.
    fn is_share(self) -> bool {
        use Setting::{Alpha, Beta1, Beta2, Momentum};
        matches!(self, Momentum | Beta1 | Beta2 | Alpha)
    }

    /// Returns whether a value is allowed: decay rates are less than one, and nothing is negative.
    fn allows(self, value: f64) -> bool {
        value >= 0.0 && value.is_finite() && (!self.is_share() || value < 1.0)
    }

    /// Describes the allowed values.
    fn allowed(self) -> &'static str {
        match self.is_share() {
            true => "it is at least 0 and less than 1",
            false => "it is at least 0 and finite",
        }
    }
}

impl Method {
    /// Returns the settings of the method with their usual defaults.
    fn defaults(self) -> &'static [(Setting, f64)] {
        use Setting::{
            Alpha, Beta1, Beta2, Epsilon, LearningRate, Momentum, RateDecay, WeightDecay,
        };
        match self {
            Method::Sgd => &[(LearningRate, 0.01), (WeightDecay, 0.0)],
            Method::Momentum | Method::Nesterov => {
                &[(LearningRate, 0.01), (Momentum, 0.9), (WeightDecay, 0.0)]
            }
            Method::Adam => &[
                (LearningRate, 0.001),
                (Beta1, 0.9),
                (Beta2, 0.999),
                (Epsilon, 1e-8),
                (WeightDecay, 0.0),
            ],
            Method::AdamW => &[
                (LearningRate, 0.001),
                (Beta1, 0.9),
                (Beta2, 0.999),
                (Epsilon, 1e-8),
                (WeightDecay, 0.01),
            ],
            Method::Adagrad => {
                &[(LearningRate, 0.01), (Epsilon, 1e-10), (WeightDecay, 0.0), (RateDecay, 0.0)]
            }
            Method::RmsProp => &[
                (LearningRate, 0.01),
                (Alpha, 0.99),
                (Epsilon, 1e-8),
                (Momentum, 0.0),
                (WeightDecay, 0.0),
            ],
        }
    }

    /// Returns whether the method needs the number of the step.
    fn counts(self) -> bool {
        !matches!(self, Method::Sgd | Method::RmsProp)
    }
}

/// A method and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    method: Method,
    settings: Vec<(Setting, f64)>,
}

impl From<Method> for Optimizer {
    fn from(method: Method) -> Optimizer {
        Optimizer { method, settings: method.defaults().to_vec() }
    }
}

impl Optimizer {
    /// Changes a setting.
    ///
    /// # Errors
    ///
    /// Returns an error for a setting that the method does not have, or a value that is not
    /// allowed.
    pub fn with(mut self, setting: Setting, value: f64) -> Result<Optimizer> {
        let name = setting.word();
        let known: Vec<String> =
            self.settings.iter().map(|(known, _)| format!("`{}`", known.word())).collect();
        let Some(found) = self.settings.iter_mut().find(|(known, _)| *known == setting) else {
            let message = format!("the optimizer makes no use of `{name}`");
            let known = format!("it knows {}", known.join(", "));
            return Err(Diagnostic::new(Code::BadOption, message).note(known));
        };
        if !setting.allows(value) {
            let message = format!("{value} cannot be the `{name}` of an optimizer");
            return Err(Diagnostic::new(Code::BadOption, message).note(setting.allowed()));
        }
        found.1 = value;
        Ok(self)
    }

    /// Returns the value of a setting; zero if the method does not have it.
    fn get(&self, setting: Setting) -> f64 {
        let found = self.settings.iter().find(|(known, _)| *known == setting);
        found.map_or(0.0, |(_, value)| *value)
    }

    fn attribute(&self, name: &'static str, setting: Setting) -> (&'static str, Attribute) {
        (name, Attribute::Float(self.get(setting) as f32))
    }
}

/// An assignment of a step: the variable and its new value.
pub struct Update {
    /// The name of the variable.
    pub variable: String,
    /// The name of the value.
    pub value: String,
    /// Whether the variable belongs to the optimizer, and starts at zero.
    pub is_state: bool,
}

/// Writes the nodes that compute the new `variables` from their `gradients`.
pub fn write(
    draft: &mut Draft,
    optimizer: &Optimizer,
    variables: &[Variable],
    gradients: &[String],
) -> Vec<Update> {
    let rate = draft.constant("learning_rate", number(variables[0].dtype, optimizer, RATE));
    let mut step =
        Step { draft, optimizer, rate, ordinal: None, updates: Vec::new(), scalars: Vec::new() };
    step.scalars.push((step.rate.clone(), variables[0].dtype, step.rate.clone()));
    if optimizer.method.counts() {
        step.count();
    }
    for (variable, gradient) in variables.iter().zip(gradients) {
        step.variable(variable, gradient);
    }
    step.updates
}

const RATE: Setting = Setting::LearningRate;

fn number(dtype: DType, optimizer: &Optimizer, setting: Setting) -> Tensor {
    scalar(dtype, optimizer.get(setting))
}

fn scalar(dtype: DType, value: f64) -> Tensor {
    Tensor::from_number(dtype, value).expect("variables are of floating-point types")
}

/// A step under construction.
struct Step<'a> {
    draft: &'a mut Draft,
    optimizer: &'a Optimizer,
    rate: String,
    /// The number of steps before this one, and including it.
    ordinal: Option<(String, String)>,
    updates: Vec<Update>,
    /// The scalars written so far: kind, type and name.
    scalars: Vec<(String, DType, String)>,
}

impl Step<'_> {
    /// Counts the steps. The counter starts at 0 and is the number of previous steps.
    fn count(&mut self) {
        let before = self.draft.constant("step", Tensor::from_int(0));
        let one = self.draft.constant("one", Tensor::from_int(1));
        let now = self.draft.node("Add", &[&before, &one], "step.next");
        self.updates.push(Update { variable: before.clone(), value: now.clone(), is_state: true });
        self.draft.give(&now, DType::I64, &[]);
        self.ordinal = Some((before, now));
    }

    fn variable(&mut self, x: &Variable, g: &str) {
        match self.optimizer.method {
            Method::Sgd => {
                let g = self.decayed(x, g);
                let rate = self.rate(x.dtype);
                let step = self.made(x, "Mul", &[&rate, &g], "step");
                self.finish(x, "Sub", &step);
            }
            Method::Momentum => self.momentum(x, g, "standard"),
            Method::Nesterov => self.momentum(x, g, "nesterov"),
            Method::Adam => {
                let decay = self.optimizer.attribute("norm_coefficient", Setting::WeightDecay);
                self.adam(x, &x.name, g, vec![decay]);
            }
            Method::AdamW => {
                let kept = self.kept(x.dtype);
                let smaller = self.made(x, "Mul", &[&x.name, &kept], "decayed");
                self.adam(x, &smaller, g, Vec::new());
            }
            Method::Adagrad => self.adagrad(x, g),
            Method::RmsProp => self.rms_prop(x, g),
        }
    }

    fn momentum(&mut self, x: &Variable, g: &str, mode: &str) {
        let attributes = vec![
            self.optimizer.attribute("alpha", Setting::Momentum),
            // The gradient counts fully in the first and in later steps.
            ("beta", Attribute::Float(1.0)),
            self.optimizer.attribute("norm_coefficient", Setting::WeightDecay),
            ("mode", Attribute::String(mode.into())),
        ];
        self.operator(x, &x.name, g, "Momentum", &["momentum"], attributes);
    }

    fn adam(
        &mut self,
        x: &Variable,
        from: &str,
        g: &str,
        mut more: Vec<(&'static str, Attribute)>,
    ) {
        more.extend([
            self.optimizer.attribute("alpha", Setting::Beta1),
            self.optimizer.attribute("beta", Setting::Beta2),
            self.optimizer.attribute("epsilon", Setting::Epsilon),
        ]);
        self.operator(x, from, g, "Adam", &["mean", "mean_square"], more);
    }

    fn adagrad(&mut self, x: &Variable, g: &str) {
        let attributes = vec![
            self.optimizer.attribute("epsilon", Setting::Epsilon),
            self.optimizer.attribute("decay_factor", Setting::RateDecay),
            self.optimizer.attribute("norm_coefficient", Setting::WeightDecay),
        ];
        self.operator(x, &x.name, g, "Adagrad", &["sum_square"], attributes);
    }

    /// Writes an operator of ONNX, which computes a new variable and new states.
    fn operator(
        &mut self,
        x: &Variable,
        from: &str,
        g: &str,
        op: &str,
        states: &[&str],
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        let (before, now) = self.ordinal.clone().expect("these methods count");
        // Adam corrects the bias from `T` = 1 on; `T` = 0 means no correction.
        let ordinal = if op == "Adam" { now } else { before };
        let states: Vec<String> = states.iter().map(|what| self.state(x, what)).collect();
        let (rate, next) = (self.rate(x.dtype), self.draft.name(&format!("{}.next", x.name)));
        let new = states.iter().map(|state| self.draft.name(&format!("{state}.next")));
        let new: Vec<String> = std::iter::once(next).chain(new).collect();
        let mut inputs = vec![rate.as_str(), &ordinal, from, g];
        inputs.extend(states.iter().map(String::as_str));
        self.draft.training(op, &x.name, &inputs, &new, attributes);
        let variables = std::iter::once(&x.name).chain(&states);
        for (i, (variable, value)) in variables.zip(new).enumerate() {
            self.assign(x, variable, &value, i > 0);
        }
    }

    fn rms_prop(&mut self, x: &Variable, g: &str) {
        let g = self.decayed(x, g);
        let alpha = self.optimizer.get(Setting::Alpha);
        let (kept, new) = (
            self.number("alpha", x.dtype, alpha),
            self.number("one_minus_alpha", x.dtype, 1.0 - alpha),
        );
        let epsilon = self.number("epsilon", x.dtype, self.optimizer.get(Setting::Epsilon));
        let state = self.state(x, "mean_square");
        let square = self.made(x, "Mul", &[&g, &g], "square");
        let share = self.made(x, "Mul", &[&new, &square], "square.share");
        let before = self.made(x, "Mul", &[&kept, &state], "mean_square.share");
        let mean = self.made(x, "Add", &[&before, &share], "mean_square.next");
        self.assign(x, &state, &mean, true);
        let root = self.made(x, "Sqrt", &[&mean], "root");
        let size = self.made(x, "Add", &[&root, &epsilon], "size");
        let mut scaled = self.made(x, "Div", &[&g, &size], "scaled");
        let momentum = self.optimizer.get(Setting::Momentum);
        if momentum > 0.0 {
            let momentum = self.number("momentum", x.dtype, momentum);
            let state = self.state(x, "momentum");
            let before = self.made(x, "Mul", &[&momentum, &state], "momentum.share");
            scaled = self.made(x, "Add", &[&before, &scaled], "momentum.next");
            self.assign(x, &state, &scaled, true);
        }
        let rate = self.rate(x.dtype);
        let step = self.made(x, "Mul", &[&rate, &scaled], "step");
        self.finish(x, "Sub", &step);
    }

    /// Returns the gradient plus `weight_decay · x`, if there is weight decay.
    fn decayed(&mut self, x: &Variable, g: &str) -> String {
        let decay = self.optimizer.get(Setting::WeightDecay);
        if decay == 0.0 {
            return g.to_owned();
        }
        let decay = self.number("weight_decay", x.dtype, decay);
        let pull = self.made(x, "Mul", &[&decay, &x.name], "pull");
        self.made(x, "Add", &[g, &pull], "pulled")
    }

    /// Returns the factor `1 - lr · weight_decay`.
    fn kept(&mut self, dtype: DType) -> String {
        self.once("kept", dtype, |step| {
            let decay =
                step.number("weight_decay", dtype, step.optimizer.get(Setting::WeightDecay));
            let (rate, one) = (step.rate(dtype), step.number("unit", dtype, 1.0));
            let lost = step.draft.node("Mul", &[&rate, &decay], "lost");
            step.draft.node("Sub", &[&one, &lost], "kept")
        })
    }

    /// Returns the learning rate in a type.
    fn rate(&mut self, dtype: DType) -> String {
        let rate = self.rate.clone();
        self.once(&rate.clone(), dtype, |step| {
            let to = vec![("to", Attribute::Int(i64::from(dtype.code())))];
            step.draft.node_with("Cast", &[&rate], &rate, to)
        })
    }

    /// Returns a scalar of a type.
    fn number(&mut self, name: &str, dtype: DType, value: f64) -> String {
        self.once(name, dtype, |step| step.draft.constant(name, scalar(dtype, value)))
    }

    /// Returns a value that all variables of a type share.
    fn once(&mut self, what: &str, dtype: DType, make: impl FnOnce(&mut Self) -> String) -> String {
        let found = self.scalars.iter().find(|(known, ty, _)| known == what && *ty == dtype);
        if let Some((.., name)) = found {
            return name.clone();
        }
        let name = make(self);
        self.scalars.push((what.to_owned(), dtype, name.clone()));
        name
    }

    /// Writes a node for a variable, named after it.
    fn made(&mut self, x: &Variable, op: &str, inputs: &[&str], what: &str) -> String {
        self.draft.node(op, inputs, &format!("{}.{what}", x.name))
    }

    /// Adds a variable of the optimizer, initially zero.
    fn state(&mut self, x: &Variable, what: &str) -> String {
        self.draft.zeros(&format!("{}.{what}", x.name), x.dtype, &x.shape)
    }

    fn finish(&mut self, x: &Variable, op: &str, step: &str) {
        let next = self.made(x, op, &[&x.name, step], "next");
        self.assign(x, &x.name, &next, false);
    }

    fn assign(&mut self, x: &Variable, variable: &str, value: &str, is_state: bool) {
        self.draft.give(value, x.dtype, &x.shape);
        let (variable, value) = (variable.to_owned(), value.to_owned());
        self.updates.push(Update { variable, value, is_state });
    }
}
