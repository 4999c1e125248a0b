//! External data: a tensor whose entries are any text, beside a file of any bytes.

use crate::choices::Choices;
use onnxc::{Compiler, Options};
use onnxc_proto::{
    GraphProto, Message, ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use std::{fs, path::PathBuf};

const LOCATIONS: [&str; 10] =
    ["data", "./data", "../data", "/etc/passwd", "data/", "", "no", "a/../data", "data\0", "link"];

/// Creates the directory of the model once, with a file and a link out of it.
fn directory() -> PathBuf {
    let path = std::env::temp_dir().join(format!("onnxc-fuzz-{}", std::process::id()));
    if !path.exists() {
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        fs::write(path.join("data"), [7; 4096]).expect("the directory was made above");
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", path.join("link"))
            .expect("the directory was made above");
    }
    path
}

/// Runs the target.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value),
    };
    let location = choices.of(&LOCATIONS).expect("the list is not empty");
    let mut entries = vec![entry("location", (*location).to_owned())];
    for key in ["offset", "length", "checksum", "basepath", "location"] {
        match choices.byte() % 4 {
            0 => entries.push(entry(key, choices.int().to_string())),
            1 => entries.push(entry(key, (u32::from(choices.byte()) * 4).to_string())),
            _ => {}
        }
    }
    let dims = (0..choices.byte() % 4).map(|_| choices.int()).collect();
    let tensor = TensorProto {
        name: Some("w".into()),
        dims,
        data_type: Some(i32::from(choices.byte() % 27)),
        data_location: Some(1),
        external_data: entries,
        ..TensorProto::default()
    };
    let graph = GraphProto {
        name: Some("g".into()),
        initializer: vec![tensor],
        output: vec![ValueInfoProto { name: Some("w".into()), ..ValueInfoProto::default() }],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(21) }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let mut options = Options::default();
    options.settings.directory = Some(directory());
    let planned = Compiler::new(&options).plan(model.encode_to_vec().into());
    let allowed = ["data", "./data", "data/", "a/../data"];
    assert!(planned.is_err() || allowed.contains(location), "{location} was read");
}
