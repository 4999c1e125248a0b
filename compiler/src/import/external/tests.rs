//! Tests which external data is read, and which is not, whatever the model and its directory
//! contain.

use super::*;
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto,
    StringStringEntryProto, TrainingInfoProto, tensor_proto::DataLocation,
};
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A temporary directory with `model/`, a file of 16 bytes in it, and the same file `outside` of
/// it. It is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "onnxc-external-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let scratch = Scratch(std::env::temp_dir().join(name));
        fs::create_dir_all(scratch.0.join("model/deep"))
            .expect("the temporary directory can be written");
        let bytes: Vec<u8> = (0..16).collect();
        fs::write(scratch.model("data"), &bytes).expect("the test made the directory");
        fs::write(scratch.0.join("outside"), &bytes).expect("the test made the directory");
        scratch
    }

    fn model(&self, name: &str) -> PathBuf {
        self.0.join("model").join(name)
    }

    fn files(&self) -> Files {
        Files::within(Some(self.0.join("model")))
    }

    /// Reads a tensor of four bytes with these fields.
    fn read(&self, fields: &[(&str, &str)]) -> std::result::Result<Vec<u8>, String> {
        let read = self.files().read(&proto(fields), 4);
        read.map(|bytes| bytes.to_vec()).map_err(|diagnostic| diagnostic.message)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the test made the directory");
    }
}

fn proto(fields: &[(&str, &str)]) -> TensorProto {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some((*key).to_owned()),
        value: Some((*value).to_owned()),
    };
    TensorProto {
        data_location: Some(DataLocation::External as i32),
        external_data: fields.iter().map(entry).collect(),
        ..Default::default()
    }
}

#[test]
fn a_part_of_a_file_is_a_tensor() {
    let scratch = Scratch::new();
    assert_eq!(scratch.read(&[("location", "data")]), Ok(vec![0, 1, 2, 3]));
    let second = [("location", "data"), ("offset", "4"), ("length", "4"), ("note", "unknown")];
    assert_eq!(scratch.read(&second), Ok(vec![4, 5, 6, 7]));
    assert_eq!(scratch.read(&[("location", "./data"), ("offset", "12")]), Ok(vec![12, 13, 14, 15]));
    fs::write(scratch.model("deep/a..b: c"), [9; 4]).expect("the test made the directory");
    assert_eq!(scratch.read(&[("location", "deep/a..b: c")]), Ok(vec![9; 4]));
}

#[test]
fn tensors_share_a_file_that_is_opened_once() {
    let scratch = Scratch::new();
    let files = scratch.files();
    let first = files.read(&proto(&[("location", "data")]), 16).expect("the test wrote the file");
    fs::remove_file(scratch.model("data")).expect("the test made the directory");
    let second = files.read(&proto(&[("location", "./data"), ("offset", "8")]), 8);
    let second = second.expect("an opened file stays mapped");
    assert_eq!(second.as_ptr(), first[8..].as_ptr());
    assert_eq!(files.into_read(), [Path::new("data")]);
}

#[test]
fn numbers_must_fit_the_file() {
    let scratch = Scratch::new();
    for (fields, fault) in [
        ([("offset", "13"), ("length", "4")], "too few"),
        ([("offset", "17"), ("length", "4")], "too few"),
        ([("offset", "18446744073709551615"), ("length", "4")], "too few"),
        ([("offset", "18446744073709551616"), ("length", "4")], "whole number"),
        ([("offset", "-4"), ("length", "4")], "whole number"),
        ([("offset", "0"), ("length", "x")], "whole number"),
        ([("offset", "0"), ("length", "5")], "differs"),
        ([("offset", "0"), ("length", "18446744073709551615")], "differs"),
        ([("offset", "0"), ("offset", "4")], "twice"),
        ([("offset", "0"), ("location", "data")], "twice"),
    ] {
        let all: Vec<_> = [("location", "data")].into_iter().chain(fields).collect();
        let found = scratch.read(&all).expect_err("the fields are invalid");
        assert!(found.contains(fault), "{fields:?}: {found}");
    }
}

#[test]
fn booleans_are_0_or_1() {
    let scratch = Scratch::new();
    let read = |offset: &str| {
        let dtype = Some(crate::dtype::DType::Bool.code());
        let fields = [("location", "data"), ("offset", offset)];
        let proto = TensorProto { data_type: dtype, dims: vec![2], ..proto(&fields) };
        super::super::tensor::tensor(&proto, &scratch.files()).map(|tensor| tensor.ints())
    };
    assert_eq!(read("0").ok(), Some(Some(vec![0, 1])));
    let found = read("1").expect_err("a 2 is there").message;
    assert_eq!(found, "boolean 1 of the tensor is 2, neither 0 nor 1");
}

#[test]
fn a_checksum_is_that_of_the_whole_file() {
    let scratch = Scratch::new();
    let digest = "56178b86a57fac22899a9964185c2cc96e7da589";
    let upper = digest.to_uppercase();
    for (checksum, fits) in [(digest, true), (&upper, true), (&digest[1..], false), ("", false)] {
        let found = scratch.read(&[("location", "data"), ("offset", "4"), ("checksum", checksum)]);
        assert_eq!(found.is_ok(), fits, "{checksum}: {found:?}");
    }
}

#[test]
fn missing_data_is_an_error_that_says_how_to_get_it() {
    let scratch = Scratch::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4\n";
    fs::write(scratch.model("pointer"), pointer).expect("the test made the directory");
    for (location, help) in [("missing", "the exported model"), ("pointer", "git lfs pull")] {
        let found = scratch.files().read(&proto(&[("location", location)]), 4);
        let said = found.expect_err("the data is missing").help;
        assert!(said.as_ref().is_some_and(|said| said.contains(help)), "{said:?}");
    }
}

#[test]
fn files_outside_the_directory_are_not_read() {
    let scratch = Scratch::new();
    let absolute = scratch.model("data").display().to_string();
    fs::write(scratch.model("two\nlines"), "data").expect("the test made the directory");
    for location in [
        "",
        ".",
        "..",
        "../outside",
        "deep/../../outside",
        "deep/../data",
        &absolute,
        "/etc/hostname",
        "C:\\data",
        "C:data",
        "c:/data",
        "\\\\server\\data",
        "deep\\data",
        "data\0",
        "two\nlines",
    ] {
        let found = scratch
            .read(&[("location", location)])
            .expect_err("the location leads outside the directory");
        assert!(found.contains("inside the model's directory"), "{location}: {found}");
    }
}

#[test]
fn links_are_not_followed() {
    let scratch = Scratch::new();
    let link = |to: &str, from: &str| {
        symlink(to, scratch.model(from)).expect("the test made the directory")
    };
    link("../outside", "leads_out");
    link("data", "stays_inside");
    link("../../model", "deep/back");
    link("/etc", "etc");
    link("nowhere", "dangling");
    link("loop", "loop");
    for location in
        ["leads_out", "stays_inside", "deep/back/data", "etc/hostname", "dangling", "loop"]
    {
        assert!(scratch.read(&[("location", location)]).is_err(), "{location}");
    }
    // The user chose the directory, which may be reached through a link.
    symlink("model", scratch.0.join("chosen")).expect("the test made the directory");
    let files = Files::within(Some(scratch.0.join("chosen")));
    assert!(files.read(&proto(&[("location", "data")]), 4).is_ok());
}

#[test]
fn a_hard_link_is_an_error() {
    let scratch = Scratch::new();
    fs::hard_link(scratch.0.join("outside"), scratch.model("hard"))
        .expect("the test made the directory");
    let found = scratch.read(&[("location", "hard")]).expect_err("the file is a hard link");
    assert!(found.contains("second name"), "{found}");
    fs::remove_file(scratch.0.join("outside")).expect("the test made the directory");
    assert!(scratch.read(&[("location", "hard")]).is_ok(), "the other name is gone");
}

#[test]
fn a_location_that_is_not_a_regular_file_is_an_error() {
    let scratch = Scratch::new();
    let pipe = scratch.model("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("the test made the directory");
    for location in ["pipe", "deep"] {
        let found = scratch
            .read(&[("location", location)])
            .expect_err("the location is not a regular file");
        assert!(found.contains("regular file"), "{location}: {found}");
    }
    assert!(scratch.read(&[("location", "data/more")]).is_err());
    assert!(scratch.read(&[("location", "missing")]).is_err());
}

#[test]
fn a_model_without_a_directory_has_no_files() {
    let found = Files::none().read(&proto(&[("location", "data")]), 4);
    assert!(found.expect_err("the model has no directory").message.contains("without a directory"));
}

#[test]
fn data_is_gathered_wherever_a_tensor_may_stand() {
    let scratch = Scratch::new();
    let tensor = || TensorProto {
        data_type: Some(3),
        dims: vec![4],
        ..proto(&[("location", "data"), ("offset", "4"), ("length", "4")])
    };
    let sparse = || SparseTensorProto {
        values: Some(tensor()),
        indices: Some(tensor()),
        ..SparseTensorProto::default()
    };
    let attribute = || AttributeProto {
        t: Some(Box::new(tensor())),
        tensors: vec![tensor()],
        sparse_tensor: Some(Box::new(sparse())),
        sparse_tensors: vec![sparse()],
        ..AttributeProto::default()
    };
    let node = |g: Option<GraphProto>| NodeProto {
        attribute: vec![AttributeProto { g: g.map(Box::new), ..attribute() }],
        ..NodeProto::default()
    };
    let graph = || GraphProto {
        initializer: vec![tensor()],
        sparse_initializer: vec![sparse()],
        node: vec![node(Some(GraphProto { initializer: vec![tensor()], ..Default::default() }))],
        ..GraphProto::default()
    };
    let function = FunctionProto {
        attribute_proto: vec![attribute()],
        node: vec![node(None)],
        ..FunctionProto::default()
    };
    let mut model = ModelProto {
        graph: Some(graph()),
        functions: vec![function],
        training_info: vec![TrainingInfoProto { algorithm: Some(graph()), ..Default::default() }],
        ..ModelProto::default()
    };
    let files = Some(scratch.0.join("model"));
    crate::import::gather(&mut model, files).expect("the test wrote the file");
    let text = format!("{model:?}");
    assert!(!text.contains("location: Some"), "{text}");
    assert_eq!(text.matches(r"\x04\x05\x06\x07").count(), 2 * 10 + 2 * 6);
}
