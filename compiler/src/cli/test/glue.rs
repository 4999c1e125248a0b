//! The function that calls a generated module with values from a file.

use onnxc::{
    dtype::DType,
    emit::{Form, Signature},
};

/// The function that runs a model on values from a file.
pub fn glue(signature: &Signature, types: &[DType], shapes: &[Option<Vec<usize>>]) -> String {
    let (mut before, mut arguments) = (String::new(), Vec::new());
    for (i, (form, dtype)) in signature.inputs.iter().zip(types).enumerate() {
        let (input, data) = (format!("&inputs[{i}]"), format!("x{i}"));
        before += &format!("    let {data} = &{};\n", read(form, dtype.rust(), &input));
        arguments.push(argument(form, &input, &data));
    }
    let refuse = if signature.refuses { ".map_err(|error| error.to_string())?" } else { "" };
    let outputs = signature.outputs.iter().zip(shapes).map(|((name, form), shape)| {
        let value =
            if signature.outputs.len() == 1 { "result".into() } else { format!("result.{name}") };
        taken(form, shape.as_deref(), &value)
    });
    let outputs = outputs.collect::<Vec<_>>().join(", ");
    let (name, arguments) = (&signature.model, arguments.join(", "));
    // What keeps state lives from one data set to the next.
    let (held, model) = if signature.keeps_state {
        let held = format!(
            "\nstatic MODEL: std::sync::Mutex<{name}> = std::sync::Mutex::new({name}::new());\n"
        );
        (held, String::from("MODEL.lock().map_err(|error| error.to_string())?"))
    } else {
        (String::new(), format!("{name}::new()"))
    };
    format!(
        "{held}\npub fn run(inputs: &[runner_io::Value]) -> Result<Vec<runner_io::Value>, String> {{\n    if inputs.len() != {} {{\n        return Err(\"there are not as many inputs as the model has\".into());\n    }}\n{before}    let mut model = {model};\n    let result = model.infer({arguments}){refuse};\n    Ok(vec![{outputs}])\n}}\n",
        types.len()
    )
}

/// The data of an input, which is the value that `x` says.
fn read(form: &Form, ty: &str, x: &str) -> String {
    match form {
        Form::Scalar | Form::Array(_) | Form::View(_) | Form::Heap(_) => {
            format!("({x}).elements::<{ty}>()?")
        }
        Form::Sequence => format!("({x}).sequence::<{ty}>()?"),
        Form::Map(key) | Form::Maps(key, _) => format!("({x}).map::<{}, {ty}>()?", key.rust()),
        Form::Optional(form) => {
            let content = read(form, ty, "x");
            format!("match ({x}).optional() {{ Some(x) => Some({content}), None => None }}")
        }
    }
}

/// What the model is given: the value that `x` says, with the data that was read of it.
fn argument(form: &Form, x: &str, data: &str) -> String {
    match form {
        Form::Scalar => format!("{data}[0].clone()"),
        Form::Array(_) => {
            format!("{data}.as_slice().try_into().map_err(|_| \"an input has another size\")?")
        }
        Form::View(_) | Form::Heap(_) => format!(
            "::onnxc_runtime::view::View::new(({x}).shape()?, {data}).map_err(|error| error.to_string())?"
        ),
        Form::Sequence => data.to_owned(),
        Form::Map(_) | Form::Maps(..) => format!(
            "::onnxc_runtime::dictionary::Map::new(&{data}.0, &{data}.1).map_err(|error| error.to_string())?"
        ),
        Form::Optional(form) => {
            let content = argument(form, "x", "data");
            format!(
                "match (({x}).optional(), {data}) {{ (Some(x), Some(data)) => Some({content}), _ => None }}"
            )
        }
    }
}

/// What the program writes for an output.
fn taken(form: &Form, shape: Option<&[usize]>, value: &str) -> String {
    match (form, shape) {
        (Form::Scalar, _) => format!("runner_io::Value::new(&[], &[{value}])"),
        (Form::Array(_), Some(shape)) => format!("runner_io::Value::new(&{shape:?}, {value})"),
        (Form::Sequence, _) => format!("runner_io::Value::of_sequence(&{value})"),
        (Form::Map(key) | Form::Maps(key, _), _) => {
            let keys = match key {
                DType::String => format!(
                    "&{value}.keys().iter().map(|key| String::from(*key)).collect::<Vec<_>>()"
                ),
                _ => format!("{value}.keys()"),
            };
            format!("runner_io::Value::of_maps({keys}, {value}.values())")
        }
        (Form::Optional(form), _) => {
            let content = taken(form, shape, "value");
            format!("runner_io::Value::of_optional({value}.map(|value| {content}))")
        }
        (Form::Array(_) | Form::View(_) | Form::Heap(_), _) => {
            format!("runner_io::Value::new(&{value}.shape(), {value}.data())")
        }
    }
}
