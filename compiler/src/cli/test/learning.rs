//! Tests trainable models in folders with `model.onnx`, `data.npz`, and `meta.json` with
//! tolerances.
//!
//! The archive has `init/NAME`, the variables of a new model; `state0/NAME`, the variables after
//! initialization; for each iteration `stepNN/in/NAME`, `stepNN/out/NAME` and `stepNN/state/NAME`,
//! the inputs, the outputs, and the variables after all algorithms ran in order; and
//! `infer/in/NAME`, `infer/out0/NAME` and `infer/outN/NAME`, inference before the first iteration
//! and after the last.

use super::{
    compare::{self, Distance},
    folder::{DataSet, Folder},
};
use crate::cli::{files, npz, tolerance::Tolerance};
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics},
    interpreter::Learner,
    plan::{Plan, Port, Training},
    tensor::Tensor,
    value::Value,
};
use serde_json::Value as Json;
use std::{collections::BTreeMap, path::Path};

/// A sequence of actions on a model, with the expected results.
pub struct Script {
    acts: Vec<Act>,
    /// The bounds of a random result, and its name.
    range: Option<(String, [f64; 2])>,
}

/// A method of a model.
#[derive(Clone, Copy, Debug)]
enum Method {
    Init,
    Reset,
    Infer,
    Step(usize),
}

struct Act {
    method: Method,
    /// The name of the action in messages.
    at: String,
    inputs: Vec<Value>,
    /// The names of its outputs, followed by the variables.
    names: Vec<String>,
    /// The number of outputs.
    outputs: usize,
    expected: Vec<(usize, Value, Tolerance)>,
}

impl Method {
    /// The number by which generated code selects the method.
    fn number(self) -> i64 {
        match self {
            Method::Init => 0,
            Method::Reset => 1,
            Method::Infer => 2,
            Method::Step(algorithm) => 3 + algorithm as i64,
        }
    }

    /// The plan of the method, if it has inputs and outputs.
    fn plan(self, training: &Training) -> Option<&Plan> {
        match self {
            Method::Init | Method::Reset => None,
            Method::Infer => Some(&training.infer),
            Method::Step(algorithm) => Some(&training.steps[algorithm].plan),
        }
    }
}

/// Reads the inputs in a folder of the archive beside a model, if it has all of them.
pub fn inputs_beside(
    model: &Path,
    plan: &Plan,
    folder: &str,
) -> Result<Option<Vec<Value>>, Diagnostics> {
    let path = model.with_file_name("data.npz");
    if model.file_name() != Some("model.onnx".as_ref()) || !path.is_file() {
        return Ok(None);
    }
    Ok(Data::read(&path, Json::Null)?.inputs(plan, folder).ok())
}

/// The contents of a test folder.
struct Data {
    arrays: BTreeMap<String, Tensor>,
    meta: Json,
}

impl Script {
    /// Makes the script of a folder.
    pub fn of(folder: &Folder, training: &Training) -> Result<Script, Diagnostics> {
        let meta = files::bytes(&folder.path.join("meta.json"))?;
        let meta = serde_json::from_slice(&meta)
            .map_err(|error| Diagnostic::new(Code::Io, error.to_string()).within("meta.json"))?;
        let data = Data::read(&folder.path.join("data.npz"), meta)?;
        let mut acts = Vec::new();
        acts.push(data.act(training, Method::Reset, "reset", ["", "", "init"])?);
        // Initialization runs twice, and must have the same result.
        for _ in 0..2 {
            acts.push(data.act(training, Method::Init, "init", ["", "", "state0"])?);
        }
        if data.has_all("infer/out0", &training.infer) {
            let keys = ["infer/in", "infer/out0", ""];
            acts.push(data.act(training, Method::Infer, "inference before", keys)?);
        }
        let mut iteration = 0;
        while let Some(key) = data.iteration(iteration) {
            let last = training.steps.len().saturating_sub(1);
            let [given, taken] = [format!("{key}/in"), format!("{key}/out")];
            for algorithm in 0..training.steps.len() {
                let state = if algorithm == last { format!("{key}/state") } else { String::new() };
                let keys = [given.as_str(), &taken, &state];
                acts.push(data.act(training, Method::Step(algorithm), &key, keys)?);
            }
            iteration += 1;
        }
        let after = format!("infer/out{iteration}");
        if data.has_all(&after, &training.infer) {
            let keys = ["infer/in", &after, ""];
            acts.push(data.act(training, Method::Infer, "inference after", keys)?);
        }
        Ok(Script { acts, range: data.range() })
    }

    /// The inputs of generated code: the number of each action, followed by the inputs of the
    /// action.
    pub fn data_set(&self) -> DataSet {
        let each = self.acts.iter().flat_map(|act| {
            let number = Value::Tensor(Tensor::from_int(act.method.number()));
            std::iter::once(number).chain(act.inputs.iter().cloned())
        });
        DataSet { inputs: each.collect(), outputs: Vec::new() }
    }

    /// Runs the script in this process.
    pub fn interpret(&self, training: &Training) -> Result<Vec<Value>, String> {
        let mut learner = Learner::new(training);
        let mut found = Vec::new();
        for act in &self.acts {
            let outputs = act.interpret(&mut learner);
            found.extend(outputs.map_err(|error| format!("{}: {error}", act.at))?);
            found.extend(learner.state().map(|(_, tensor)| Value::Tensor(tensor.clone())));
        }
        Ok(found)
    }

    /// Compares the results of all actions with the expected ones. The results of an action are its
    /// outputs, followed by the variables.
    pub fn judge(&self, found: &[Value]) -> Distance {
        let mut distance = Distance::default();
        if found.len() != self.acts.iter().map(|act| act.names.len()).sum::<usize>() {
            distance.record("there are not as many results as expected".into());
            return distance;
        }
        let mut rest = found;
        let mut before: Option<(&Act, &[Value])> = None;
        for act in &self.acts {
            let (found, after) = rest.split_at(act.names.len());
            rest = after;
            for (i, expected, tolerance) in &act.expected {
                let at = format!("{}: {}", act.at, act.names[*i]);
                compare::value(&at, &found[*i], expected, *tolerance, &mut distance);
            }
            self.judge_range(act, found, &mut distance);
            let before = before.replace((act, found));
            match (before, act.method) {
                (Some((Act { method: Method::Init, .. }, first)), Method::Init)
                    if *first != *found =>
                {
                    distance.record("a second initialization gives something else".into());
                }
                (Some((_, old)), Method::Infer)
                    if old[old.len() - self.variables()..] != found[act.outputs..] =>
                {
                    distance.record("inference changes variables".into());
                }
                _ => {}
            }
        }
        distance
    }

    fn variables(&self) -> usize {
        self.acts.first().map_or(0, |act| act.names.len())
    }

    /// Compares the first step's random result with its bounds.
    fn judge_range(&self, act: &Act, found: &[Value], distance: &mut Distance) {
        let Some((name, [least, most])) = &self.range else { return };
        let at = act.names[..act.outputs].iter().position(|found| found == name);
        let number = at.and_then(|at| found[at].tensor()?.floats()?.first().copied());
        if act.at == "step00" && number.is_some_and(|number| number < *least || number > *most) {
            distance.record(format!("{}: {name} is {number:?}, not in {least}..={most}", act.at));
        }
    }
}

impl Act {
    fn interpret(&self, learner: &mut Learner<'_>) -> onnxc_runtime::Result<Vec<Value>> {
        match self.method {
            Method::Init => learner.init().map(|()| Vec::new()),
            Method::Reset => {
                learner.reset();
                Ok(Vec::new())
            }
            Method::Infer => learner.infer(&self.inputs),
            Method::Step(algorithm) => learner.step(algorithm, &self.inputs),
        }
    }
}

impl Data {
    /// Reads the archive at `path`.
    fn read(path: &Path, meta: Json) -> Result<Data, Diagnostic> {
        Ok(Data { arrays: npz::open(path)?, meta })
    }

    fn find(&self, folder: &str, name: &str) -> Option<&Tensor> {
        self.arrays.get(&format!("{folder}/{name}"))
    }

    fn has(&self, folder: &str, name: &str) -> bool {
        self.find(folder, name).is_some()
    }

    fn has_all(&self, folder: &str, plan: &Plan) -> bool {
        plan.outputs.iter().all(|port| self.has(folder, &port.name))
    }

    /// The folder of an iteration, if it exists.
    fn iteration(&self, iteration: usize) -> Option<String> {
        let key = format!("step{iteration:02}");
        let folder = format!("{key}/");
        let first = self.arrays.range(folder.clone()..).next();
        first.filter(|(name, _)| name.starts_with(&folder)).map(|_| key)
    }

    /// The inputs of a plan in a folder of the archive.
    fn inputs(&self, plan: &Plan, folder: &str) -> Result<Vec<Value>, Diagnostic> {
        let input = |port: &Port| match self.find(folder, &port.name) {
            Some(tensor) => Ok(tensor.clone().into()),
            None if port.default.is_some() => Ok(Value::Optional(None)),
            None => {
                let message = format!("there is no `{folder}/{}`", port.name);
                Err(Diagnostic::new(Code::Io, message).within("data.npz"))
            }
        };
        plan.inputs.iter().map(input).collect()
    }

    /// Makes an action with its inputs, outputs and variables in these folders of the archive.
    fn act(
        &self,
        training: &Training,
        method: Method,
        at: &str,
        [given, taken, state]: [&str; 3],
    ) -> Result<Act, Diagnostic> {
        let plan = method.plan(training);
        let variables = || training.variables().map(|port| &port.name);
        let outputs = plan.map_or(&[][..], |plan| &plan.outputs);
        let inputs = plan.map_or(Ok(Vec::new()), |plan| self.inputs(plan, given))?;
        let names = outputs.iter().map(|port| &port.name).chain(variables());
        let names: Vec<String> = names.cloned().collect();
        let expected = names.iter().enumerate().filter_map(|(i, name)| {
            let folder = if i < outputs.len() { taken } else { state };
            Some((i, self.find(folder, name)?.clone().into(), self.tolerance(name)))
        });
        let expected = expected.collect();
        Ok(Act { method, at: at.to_owned(), inputs, names, outputs: outputs.len(), expected })
    }

    /// The tolerance of a value. Outputs of inference without one get a multiple of the largest
    /// tolerance of a variable.
    fn tolerance(&self, name: &str) -> Tolerance {
        let atols =
            self.meta.get("tolerance").and_then(|tolerance| tolerance.get("atol")?.as_object());
        if let Some(atol) = atols.and_then(|all| all.get(name)?.as_f64()) {
            return Tolerance { atol: Some(atol), rtol: Some(0.0) };
        }
        let all = atols.into_iter().flat_map(|all| all.values()).filter_map(Json::as_f64);
        let most = all.fold(0.0, f64::max);
        Tolerance { atol: Some(10.0 * most), rtol: Some(20.0 * most) }
    }

    /// The bounds of the first loss of a randomly initialized model.
    fn range(&self) -> Option<(String, [f64; 2])> {
        let range = self.meta.get("random")?.get("loss_step0_range")?.as_array()?;
        let [least, most] = range.as_slice() else { return None };
        Some(("loss".into(), [least.as_f64()?, most.as_f64()?]))
    }
}
