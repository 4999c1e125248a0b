//! Reads `data.json`, the settings of a test folder: tolerances and sizes of dimensions, as in
//! `{"rtol": 1e-3, "atol": 1e-7, "dims": {"batch": "1..=8", "seq": "128"}}`.

use crate::cli::tolerance::Tolerance;
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    file, ident,
};
use serde_json::{Map, Value};
use std::{fs, io::ErrorKind, path::Path};

/// The keys of settings. The files of ONNX have other keys, too, such as `url`.
const KEYS: &[&str] = &["rtol", "atol", "dims"];

/// The settings of a test folder.
#[derive(Default)]
pub struct Settings {
    /// The allowed error of a result.
    pub tolerance: Tolerance,
    /// The sizes of dimensions, in the form of `--dim`.
    pub dims: Vec<String>,
}

impl Settings {
    /// Reads the settings of a folder. A folder without `data.json` has none.
    ///
    /// # Errors
    ///
    /// Returns the faults of the file.
    pub fn of(folder: &Path) -> Result<Settings, Diagnostics> {
        let path = folder.join("data.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Settings::default()),
            Err(error) => return Err(file::unreadable(&path)(error).into()),
        };
        let read = serde_json::from_slice(&text);
        let read = read.map_err(|error| vec![fault(format!("it is no valid JSON: {error}"))]);
        let settings = read.and_then(|json| Settings::read(&json));
        settings.map_err(|faults| Diagnostics(faults).within(&path.display().to_string()))
    }

    fn read(json: &Value) -> Result<Settings, Vec<Diagnostic>> {
        let Value::Object(json) = json else {
            return Err(vec![fault("it is no object, such as `{\"rtol\": 1e-3}`".into())]);
        };
        let mut faults: Vec<Diagnostic> = json.keys().filter_map(|key| misspelled(key)).collect();
        let mut number = |key| number(json, key).map_err(|fault| faults.push(fault)).ok().flatten();
        let tolerance = Tolerance { rtol: number("rtol"), atol: number("atol") };
        let dims = dims(json).map_err(|fault| faults.push(fault)).unwrap_or_default();
        if faults.is_empty() { Ok(Settings { tolerance, dims }) } else { Err(faults) }
    }
}

fn fault(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadOption, message)
}

/// Returns the fault of a key that is similar to one of a setting.
fn misspelled(key: &str) -> Option<Diagnostic> {
    let near = ident::nearest(key, KEYS.iter().copied()).filter(|near| *near != key)?;
    let fault = fault(format!("there is no setting {}", quoted(key)));
    Some(fault.help(format!("did you mean {}?", quoted(near))))
}

fn number(json: &Map<String, Value>, key: &str) -> Result<Option<f64>, Diagnostic> {
    let Some(value) = json.get(key) else { return Ok(None) };
    match value.as_f64() {
        Some(number) if number >= 0.0 && number.is_finite() => Ok(Some(number)),
        _ => Err(fault(format!("{} is {value}, and not a number of 0 or more", quoted(key)))),
    }
}

fn dims(json: &Map<String, Value>) -> Result<Vec<String>, Diagnostic> {
    let sizes = match json.get("dims") {
        None => return Ok(Vec::new()),
        Some(Value::Object(sizes)) => sizes.iter(),
        Some(_) => return Err(fault("`dims` is no object, such as `{\"batch\": 8}`".into())),
    };
    let dim = |(name, size): (&String, &Value)| match size.as_str() {
        Some(size) => format!("{name}={size}"),
        None => format!("{name}={size}"),
    };
    Ok(sizes.map(dim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_settings_are_reported_at_once() {
        let read = |json| Settings::read(&json).map(|settings| settings.tolerance);
        let json = serde_json::json!({ "rtol": "big", "atol": -1, "rtoll": 0.1, "dims": 3 });
        let faults = read(json).expect_err("every setting has a fault");
        let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "there is no setting `rtoll`",
                "`rtol` is \"big\", and not a number of 0 or more",
                "`atol` is -1, and not a number of 0 or more",
                "`dims` is no object, such as `{\"batch\": 8}`",
            ]
        );
        assert!(read(serde_json::json!([1])).is_err());
        let json = serde_json::json!({ "atol": 1e-7, "model_name": "m", "rtol": 0, "url": "u" });
        let tolerance = Tolerance { rtol: Some(0.0), atol: Some(1e-7) };
        assert_eq!(read(json).ok(), Some(tolerance));
    }
}
