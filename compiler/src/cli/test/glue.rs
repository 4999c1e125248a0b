//! Generates the functions that call a generated module with values from a file.

use onnxc::{
    dtype::DType,
    emit::{Form, Signature},
    plan::{Plan, Training},
};
use std::path::Path;

/// Generates the function that runs a model on values from a file.
pub fn glue(signature: &Signature, types: &[DType], shapes: &[Option<Vec<usize>>]) -> String {
    let Calls { before, arguments, propagate, outputs } = Calls::of(signature, types, shapes);
    let (name, arguments) = (&signature.model, arguments.join(", "));
    format!(
        "\n\
        static MODEL: std::sync::Mutex<Option<{name}>> = std::sync::Mutex::new(None);\n\
        \n\
        pub fn run(inputs: &[runner_io::Value]) -> Result<Vec<runner_io::Value>, String> {{\n    \
        // The model lives from one data set to the next, with its state and its arena.\n    \
        let mut model = MODEL.lock().map_err(|error| error.to_string())?;\n    \
        if model.is_none() {{\n        \
        *model = Some(new_model()?);\n    \
        }}\n    \
        let model = model.as_mut().ok_or(\"the model was created\")?;\n\
        {before}    let result = model.infer({arguments}){propagate};\n    \
        Ok(vec![{outputs}])\n\
        }}\n"
    )
}

/// Generates the function that creates a model, with the weights in the file at `weights`.
pub fn new_model(name: &str, weights: Option<&Path>) -> String {
    let body = match weights {
        None => format!("    Ok({name}::new())\n"),
        Some(path) => format!(
            "    static FILE: std::sync::OnceLock<Result<&[u8], String>> = \
            std::sync::OnceLock::new();\n    \
            let weights = FILE.get_or_init(|| runner_io::weights({:?})).clone()?;\n    \
            {name}::with_weights(weights).map_err(|error| error.to_string())\n",
            path.display().to_string()
        ),
    };
    format!("\nfn new_model() -> Result<{name}, String> {{\n{body}}}\n")
}

/// Generates the function that passes to `with` a closure that calls a method of a model. `begin`
/// runs once before. `profiled` is the method that takes an observer, if the module has one.
pub fn serve(
    (method, signature): &(String, Signature),
    plan: &Plan,
    begin: &str,
    profiled: Option<&str>,
) -> String {
    let Calls { mut before, arguments, propagate, outputs } =
        Calls::of(signature, &types(plan), &shapes(plan));
    let mut names = Vec::new();
    for (i, (argument, form)) in arguments.iter().zip(&signature.inputs).enumerate() {
        before += &format!("    let a{i} = {argument};\n");
        let is_value = matches!(form, Form::Scalar);
        names.push(if is_value { format!("a{i}.clone()") } else { format!("a{i}") });
    }
    let (model, arguments) = (&signature.model, names.join(", "));
    // A model with state starts from the same state in each call.
    let reset = if signature.keeps_state { "        model.reset();\n" } else { "" };
    let nodes = profiled.map_or("&[]".to_owned(), |_| format!("{model}::NODES"));
    let observe = profiled.map(|profiled| {
        let comma = if names.is_empty() { "" } else { ", " };
        format!(
            "        if let super::Purpose::Profile(observers) = purpose {{\n            \
            let result = model.{profiled}({arguments}{comma}observers){propagate};\n            \
            std::hint::black_box(result);\n            \
            return Ok(Vec::new());\n        \
            }}\n"
        )
    });
    let observe = observe.unwrap_or_default();
    format!(
        "\n\
        use super::runner_io;\n\
        \n\
        pub const NODES: &[::onnxc_runtime::observe::Node] = {nodes};\n\
        \n\
        pub fn serve(inputs: &[runner_io::Value], with: &mut dyn FnMut(&mut super::Call) -> \
        Result<(), String>) -> Result<(), String> {{\n\
        {before}    let mut model = {model}::new();\n\
        {begin}    with(&mut |purpose| {{\n\
        {reset}{observe}        let result = \
        std::hint::black_box(model.{method}({arguments}){propagate});\n        \
        Ok(if let super::Purpose::Outputs = purpose {{ vec![{outputs}] }} else {{ Vec::new() \
        }})\n    \
        }})\n\
        }}\n"
    )
}

/// Generates the function that calls the methods of a trainable model. Numbers among the values
/// select them: 0 is `init`, 1 is `reset`, 2 is `infer`, and the algorithms follow.
pub fn run_training(model: &str, training: &Training, methods: &[(String, Signature)]) -> String {
    let (mut functions, mut arms) = (String::new(), String::new());
    let plans =
        std::iter::once(&training.infer).chain(training.steps.iter().map(|step| &step.plan));
    for (i, (plan, (method, signature))) in plans.zip(&methods[1..]).enumerate() {
        let Calls { before, arguments, propagate, outputs } =
            Calls::of(signature, &types(plan), &shapes(plan));
        let arguments = arguments.join(", ");
        functions += &format!(
            "\n\
            fn call_{i}(model: &mut {model}, inputs: &[runner_io::Value]) -> \
            Result<Vec<runner_io::Value>, String> {{\n\
            {before}    let result = model.{method}({arguments}){propagate};\n    \
            Ok(vec![{outputs}])\n\
            }}\n"
        );
        let (number, count) = (i + 2, plan.inputs.len());
        arms += &format!(
            "            {number} => {{\n                \
            let (inputs, after) = after.split_at({count});\n                \
            found.extend(call_{i}(&mut model, inputs)?);\n                \
            after\n            \
            }}\n"
        );
    }
    let init = init(&methods[0]);
    let codes: Vec<i32> = training.variables().map(|port| port.dtype().code()).collect();
    format!(
        "{functions}\n\
        pub fn run(inputs: &[runner_io::Value]) -> Result<Vec<runner_io::Value>, String> {{\n    \
        let (mut model, mut rest, mut found) = (new_model()?, inputs, Vec::new());\n    \
        while let Some((number, after)) = rest.split_first() {{\n        \
        rest = match number.elements::<i64>()?[0] {{\n            \
        0 => {{\n            \
        {init}                after\n            \
        }}\n            \
        1 => {{\n                \
        model.reset();\n                \
        after\n            \
        }}\n\
        {arms}            _ => return Err(\"there is no such algorithm\".into()),\n        \
        }};\n        \
        for (variable, dtype) in {model}::VARIABLES.iter().zip({codes:?}) {{\n            \
        let data = model.state(variable.name).unwrap_or_default().to_vec();\n            \
        found.push(runner_io::Value::Tensor {{ dtype, shape: variable.shape.to_vec(), data \
        }});\n        \
        }}\n    \
        }}\n    \
        Ok(found)\n\
        }}\n"
    )
}

/// Generates the line that initializes the variables of a trainable model.
pub fn init((method, signature): &(String, Signature)) -> String {
    format!("    model.{method}(){};\n", error_propagation(signature))
}

/// The code that propagates the error of a method that may reject its inputs.
fn error_propagation(signature: &Signature) -> &'static str {
    if signature.refuses { ".map_err(|error| error.to_string())?" } else { "" }
}

/// The element type of each input.
pub fn types(plan: &Plan) -> Vec<DType> {
    plan.inputs.iter().map(|port| port.dtype()).collect()
}

/// The shape of each output, if it is known.
pub fn shapes(plan: &Plan) -> Vec<Option<Vec<usize>>> {
    plan.outputs.iter().map(|port| port.ty.kept()?.known_shape()).collect()
}

/// The parts of the code that calls a model.
struct Calls {
    /// The code that reads the inputs.
    before: String,
    /// The arguments of the method.
    arguments: Vec<String>,
    /// The code that propagates the error of a method that may reject its inputs.
    propagate: &'static str,
    /// The outputs as a list of values.
    outputs: String,
}

impl Calls {
    fn of(signature: &Signature, types: &[DType], shapes: &[Option<Vec<usize>>]) -> Calls {
        let mut before = format!(
            "    if inputs.len() != {} {{\n        \
            return Err(\"there are not as many inputs as the model has\".into());\n    \
            }}\n",
            types.len()
        );
        let mut arguments = Vec::new();
        for (i, (form, dtype)) in signature.inputs.iter().zip(types).enumerate() {
            let (input, data) = (format!("&inputs[{i}]"), format!("x{i}"));
            before += &format!("    let {data} = &{};\n", input_data(form, *dtype, &input));
            arguments.push(argument(form, &input, &data));
        }
        let outputs = signature.outputs.iter().zip(shapes).map(|((name, form), shape)| {
            let value = if signature.outputs.len() == 1 {
                "result".into()
            } else {
                format!("result.{name}")
            };
            output_value(form, shape.as_deref(), &value)
        });
        let outputs = outputs.collect::<Vec<_>>().join(", ");
        Calls { before, arguments, propagate: error_propagation(signature), outputs }
    }
}

/// Generates the code that reads the data of the value `x`.
fn input_data(form: &Form, dtype: DType, x: &str) -> String {
    let element = |dtype: DType| if dtype == DType::String { "&str" } else { dtype.rust() };
    let ty = element(dtype);
    match form {
        Form::Scalar | Form::Array(_) | Form::View(_) | Form::Heap(_) => {
            format!("({x}).elements::<{ty}>()?")
        }
        Form::Sequence => format!("({x}).sequence::<{}>()?", dtype.rust()),
        Form::Map(key) | Form::Maps(key, _) => format!("({x}).map::<{}, {ty}>()?", element(*key)),
        Form::Optional(form) => {
            let content = input_data(form, dtype, "x");
            format!("match ({x}).optional() {{ Some(x) => Some({content}), None => None }}")
        }
    }
}

/// Generates the argument made of the value `x` and its `data`.
fn argument(form: &Form, x: &str, data: &str) -> String {
    match form {
        Form::Scalar => format!("{data}[0].clone()"),
        Form::Array(_) => {
            format!(
                "<&[_; _]>::try_from({data}.as_slice()).map_err(|_| \"an input has another size\")?"
            )
        }
        Form::View(_) | Form::Heap(_) => format!(
            "::onnxc_runtime::view::View::new(({x}).shape()?, {data}).map_err(|error| \
            error.to_string())?"
        ),
        Form::Sequence => data.to_owned(),
        Form::Map(_) | Form::Maps(..) => format!(
            "::onnxc_runtime::map::Map::new(&{data}.0, &{data}.1).map_err(|error| \
            error.to_string())?"
        ),
        Form::Optional(form) => {
            let content = argument(form, "x", "data");
            format!(
                "match (({x}).optional(), {data}) {{ (Some(x), Some(data)) => Some({content}), _ \
                => None }}"
            )
        }
    }
}

/// Generates the value of an output.
fn output_value(form: &Form, shape: Option<&[usize]>, value: &str) -> String {
    match (form, shape) {
        (Form::Scalar, _) => format!("runner_io::Value::new(&[], &[{value}])"),
        (Form::Array(_), Some(shape)) => format!("runner_io::Value::new(&{shape:?}, {value})"),
        (Form::Sequence, _) => format!("runner_io::Value::of_sequence(&{value})"),
        (Form::Map(_) | Form::Maps(..), _) => {
            format!("runner_io::Value::of_maps({value}.keys(), {value}.values())")
        }
        (Form::Optional(form), _) => {
            let content = output_value(form, shape, "value");
            format!("runner_io::Value::of_optional({value}.map(|value| {content}))")
        }
        (Form::Array(_) | Form::View(_) | Form::Heap(_), _) => {
            format!("runner_io::Value::new(&{value}.shape(), {value}.data())")
        }
    }
}
