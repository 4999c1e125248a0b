//! Rules for the model as a whole.

use super::{
    Case,
    bases::{PLAIN, entry},
    case, edit, swap,
};
use onnxc::diag::Code::*;
use onnxc_proto::{
    DeviceConfigurationProto, ModelProto, NodeDeviceConfigurationProto, OperatorSetIdProto,
    ShardingSpecProto,
};

pub fn cases() -> Vec<Case> {
    let import = |domain: &str, version| {
        let import = OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) };
        edit(PLAIN, |m| m.opset_import.push(import))
    };
    vec![
        case("ir_version_missing", IrVersion, "is missing", edit(PLAIN, |m| m.ir_version = None)),
        case("ir_version_zero", IrVersion, "is 0", edit(PLAIN, |m| m.ir_version = Some(0))),
        case("ir_version_negative", IrVersion, "is -3", edit(PLAIN, |m| m.ir_version = Some(-3))),
        case("ir_version_newer", IrVersion, "is 15", edit(PLAIN, |m| m.ir_version = Some(15))),
        case("opset_none", OpsetImport, "imports no", edit(PLAIN, |m| m.opset_import.clear())),
        case("opset_before_versions", OpsetImport, "IR version 2", before_versions()),
        case("opset_zero", OpsetImport, "in version 0", swap(PLAIN, "21", "0")),
        case("opset_negative", OpsetImport, "in version -1", swap(PLAIN, "21", "-1")),
        case("opset_beyond_int", OpsetImport, "9223372036854775807", import("d", i64::MAX)),
        case("opset_twice", ContradictingOpsets, "in versions 21 and 13", import("", 13)),
        case("opset_alias", ContradictingOpsets, "in versions 21 and 13", import("ai.onnx", 13)),
        case("metadata_twice", DuplicateKey, "`author`", metadata()),
        case("devices_unnamed", DeviceConfiguration, "no name", devices("", 1, &[])),
        case("devices_none", DeviceConfiguration, "has 0 devices", devices("d", 0, &[])),
        case("devices_names", DeviceConfiguration, "but names 1", devices("d", 2, &["a"])),
        case("devices_twice", DeviceConfiguration, "is called `d`", devices_twice()),
        case("device_unknown", DeviceConfiguration, "no configuration `d`", device("d", None)),
        case("device_tensor", DeviceConfiguration, "`b` is no input", device("c", Some("b"))),
    ]
}

/// Returns a model that imports an operator set in an IR version that has none.
fn before_versions() -> Vec<u8> {
    edit(PLAIN, |m| {
        m.ir_version = Some(2);
        m.opset_import[0].version = Some(1);
        let graph = m.graph.as_mut().expect("the base model has a graph");
        graph.initializer.clear();
        graph.node.remove(0);
        graph.node[0].input = vec!["x".into(), "x".into()];
    })
}

fn metadata() -> Vec<u8> {
    edit(PLAIN, |m| m.metadata_props = vec![entry("author", "a"), entry("author", "b")])
}

fn configuration(name: &str, count: i32, names: &[&str]) -> DeviceConfigurationProto {
    DeviceConfigurationProto {
        name: Some(name.into()),
        num_devices: Some(count),
        device: names.iter().map(|&name| name.into()).collect(),
    }
}

fn devices(name: &str, count: i32, names: &[&str]) -> Vec<u8> {
    edit(PLAIN, |m: &mut ModelProto| m.configuration = vec![configuration(name, count, names)])
}

fn devices_twice() -> Vec<u8> {
    edit(PLAIN, |m| m.configuration = vec![configuration("d", 1, &[]), configuration("d", 1, &[])])
}

/// Returns a model with a node sharded over the devices of a configuration.
fn device(name: &str, tensor: Option<&str>) -> Vec<u8> {
    edit(PLAIN, |m| {
        m.configuration = vec![configuration("c", 2, &[])];
        let spec = tensor.map(|tensor| ShardingSpecProto {
            tensor_name: Some(tensor.into()),
            ..Default::default()
        });
        let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
        node.device_configurations = vec![NodeDeviceConfigurationProto {
            configuration_id: Some(name.into()),
            sharding_spec: spec.into_iter().collect(),
            pipeline_stage: None,
        }];
    })
}
