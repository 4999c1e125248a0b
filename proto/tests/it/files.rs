//! Files that other tools wrote decode correctly: ONNX's parser and Google's protobuf wrote
//! `branch.onnx` from `branch.txt`.

use onnxc_proto::attribute_proto::AttributeType;
use onnxc_proto::tensor_proto::DataType;
use onnxc_proto::tensor_shape_proto::{Dimension, dimension};
use onnxc_proto::*;

const FILE: &[u8] = include_bytes!("branch.onnx");

#[test]
fn a_file_reads_as_its_text() {
    let model = decode_model(Bytes::from_static(FILE)).expect("the file is a model");
    assert_eq!(model, branch());
    assert_eq!(model.encode_to_vec(), FILE);
}

fn branch() -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 21), opset("local", 1)],
        producer_name: text("onnx"),
        model_version: Some(3),
        graph: Some(graph()),
        functions: vec![twice()],
        ..ModelProto::default()
    }
}

fn graph() -> GraphProto {
    let node = NodeProto {
        attribute: vec![
            branch_attribute("then_branch", doubled()),
            branch_attribute("else_branch", halved()),
        ],
        ..node("If", &["which"], "y")
    };
    let w = TensorProto {
        name: text("w"),
        dims: vec![2, 2],
        data_type: Some(DataType::Float as i32),
        float_data: vec![1.0, 2.0, 3.0, 4.0],
        ..TensorProto::default()
    };
    GraphProto {
        node: vec![node],
        name: text("branch"),
        initializer: vec![w],
        input: vec![value("which", DataType::Bool, vec![]), value("x", DataType::Float, n_by_2())],
        output: vec![value("y", DataType::Float, n_by_2())],
        ..GraphProto::default()
    }
}

fn doubled() -> GraphProto {
    let node = NodeProto { domain: text("local"), ..node("Twice", &["x"], "t") };
    GraphProto {
        node: vec![node],
        name: text("doubled"),
        output: vec![value("t", DataType::Float, n_by_2())],
        ..GraphProto::default()
    }
}

fn halved() -> GraphProto {
    let alpha = AttributeProto { f: Some(0.5), ..attribute("alpha", AttributeType::Float) };
    let trans_b = AttributeProto { i: Some(1), ..attribute("transB", AttributeType::Int) };
    let node = NodeProto { attribute: vec![alpha, trans_b], ..node("Gemm", &["x", "w"], "e") };
    GraphProto {
        node: vec![node],
        name: text("halved"),
        output: vec![value("e", DataType::Float, n_by_2())],
        ..GraphProto::default()
    }
}

fn twice() -> FunctionProto {
    let two =
        AttributeProto { floats: vec![2.0], ..attribute("value_floats", AttributeType::Floats) };
    let constant = NodeProto { attribute: vec![two], ..node("Constant", &[], "two") };
    FunctionProto {
        name: text("Twice"),
        domain: text("local"),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![constant, node("Mul", &["a", "two"], "b")],
        opset_import: vec![opset("", 21)],
        ..FunctionProto::default()
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.into())
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: text(domain), version: Some(version) }
}

fn node(op_type: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        input: input.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        op_type: text(op_type),
        domain: text(""),
        ..NodeProto::default()
    }
}

fn attribute(name: &str, ty: AttributeType) -> AttributeProto {
    AttributeProto { name: text(name), r#type: Some(ty as i32), ..AttributeProto::default() }
}

fn branch_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(Box::new(graph)), ..attribute(name, AttributeType::Graph) }
}

fn value(name: &str, elem: DataType, dim: Vec<Dimension>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim });
    let tensor = type_proto::Tensor { elem_type: Some(elem as i32), shape };
    let value = Some(type_proto::Value::TensorType(tensor));
    let r#type = Some(TypeProto { value, ..TypeProto::default() });
    ValueInfoProto { name: text(name), r#type, ..ValueInfoProto::default() }
}

fn n_by_2() -> Vec<Dimension> {
    let sizes = [dimension::Value::DimParam("n".into()), dimension::Value::DimValue(2)];
    sizes.map(|size| Dimension { value: Some(size), ..Dimension::default() }).into()
}
