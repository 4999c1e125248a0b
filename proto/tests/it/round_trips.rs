//! Every field of every message survives decoding and encoding.

use onnxc_proto::*;

use crate::sample::{Packing, Sample, Values, sized, varint};
use crate::schema::Schema;

type Recode = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

fn recode<M: Message + Default>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Ok(M::decode(bytes)?.encode_to_vec())
}

const MESSAGES: &[(&str, Recode)] = &[
    ("ModelProto", recode::<ModelProto>),
    ("OperatorSetIdProto", recode::<OperatorSetIdProto>),
    ("StringStringEntryProto", recode::<StringStringEntryProto>),
    ("GraphProto", recode::<GraphProto>),
    ("NodeProto", recode::<NodeProto>),
    ("ValueInfoProto", recode::<ValueInfoProto>),
    ("TensorAnnotation", recode::<TensorAnnotation>),
    ("FunctionProto", recode::<FunctionProto>),
    ("AttributeProto", recode::<AttributeProto>),
    ("TensorProto", recode::<TensorProto>),
    ("TensorProto.Segment", recode::<tensor_proto::Segment>),
    ("SparseTensorProto", recode::<SparseTensorProto>),
    ("TensorShapeProto", recode::<TensorShapeProto>),
    ("TensorShapeProto.Dimension", recode::<tensor_shape_proto::Dimension>),
    ("TypeProto", recode::<TypeProto>),
    ("TypeProto.Tensor", recode::<type_proto::Tensor>),
    ("TypeProto.Sequence", recode::<type_proto::Sequence>),
    ("TypeProto.Map", recode::<type_proto::Map>),
    ("TypeProto.Optional", recode::<type_proto::Optional>),
    ("TypeProto.SparseTensor", recode::<type_proto::SparseTensor>),
    ("TypeProto.Opaque", recode::<type_proto::Opaque>),
    ("TrainingInfoProto", recode::<TrainingInfoProto>),
    ("DeviceConfigurationProto", recode::<DeviceConfigurationProto>),
    ("NodeDeviceConfigurationProto", recode::<NodeDeviceConfigurationProto>),
    ("ShardingSpecProto", recode::<ShardingSpecProto>),
    ("IntIntListEntryProto", recode::<IntIntListEntryProto>),
    ("ShardedDimProto", recode::<ShardedDimProto>),
    ("SimpleShardedDimProto", recode::<SimpleShardedDimProto>),
    ("SequenceProto", recode::<SequenceProto>),
    ("MapProto", recode::<MapProto>),
    ("OptionalProto", recode::<OptionalProto>),
    ("OperatorProto", recode::<OperatorProto>),
    ("OperatorSetProto", recode::<OperatorSetProto>),
];

/// `TypeProto` has the longest `oneof`, of six.
const VARIANTS: usize = 6;

/// Decodes each message from the form `written`, and checks that encoding gives the declared form.
fn check(values: Values, written: Packing) {
    let schema = Schema::read();
    for (path, recode) in MESSAGES {
        for variant in 0..VARIANTS {
            let sample = |packing| Sample::new(&schema, values, packing, variant).message(path);
            let recoded = recode(&sample(written)).unwrap_or_else(|error| panic!("{error}"));
            assert!(recoded == sample(Packing::Declared), "{path}, alternative {variant}");
        }
    }
}

#[test]
fn every_message_of_the_schema_is_checked() {
    let mut checked: Vec<_> = MESSAGES.iter().map(|(path, _)| (*path).to_owned()).collect();
    let mut wanted: Vec<_> =
        Schema::read().messages.into_iter().map(|message| message.path).collect();
    checked.sort();
    wanted.sort();
    assert_eq!(checked, wanted);
}

#[test]
fn every_field_is_read_and_written() {
    check(Values::Counted, Packing::Declared);
}

#[test]
fn zero_is_not_absent() {
    check(Values::Zero, Packing::Declared);
}

#[test]
fn lists_of_numbers_are_read_packed_and_unpacked() {
    check(Values::Counted, Packing::Reversed);
}

#[test]
fn an_absent_field_reads_as_its_default() {
    let attribute = AttributeProto::default();
    assert_eq!((attribute.f, attribute.f()), (None, 0.0));
    assert_eq!(attribute.r#type(), attribute_proto::AttributeType::Undefined);
}

#[test]
fn bytes_are_slices_of_the_file() {
    let tensor = TensorProto { raw_data: Some(vec![7; 1000].into()), ..TensorProto::default() };
    let attribute = AttributeProto {
        s: Some(Bytes::from_static(b"text")),
        strings: vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")],
        t: Some(Box::new(TensorProto { string_data: vec!["three".into()], ..tensor.clone() })),
        ..AttributeProto::default()
    };
    let node = NodeProto { attribute: vec![attribute], ..NodeProto::default() };
    let graph = GraphProto { node: vec![node], initializer: vec![tensor], ..GraphProto::default() };
    let model = ModelProto { graph: Some(graph), ..ModelProto::default() };

    let file = Bytes::from(model.encode_to_vec());
    let read = decode_model(file.clone()).expect("a model was written");
    assert_eq!(read, model);
    let graph = read.graph.expect("the model has a graph");
    let [attribute] = &graph.node[0].attribute[..] else { panic!("one attribute was written") };
    let inner = attribute.t.as_ref().expect("the attribute has a tensor");
    let fields = [&attribute.s, &inner.raw_data, &graph.initializer[0].raw_data];
    let lists = [&attribute.strings, &inner.string_data];
    for bytes in fields.into_iter().flatten().chain(lists.into_iter().flatten()) {
        assert!(file.as_ptr_range().contains(&bytes.as_ptr()), "{bytes:?} was copied");
    }
}

#[test]
fn a_number_newer_than_the_enumeration_is_kept() {
    let attribute = AttributeProto { r#type: Some(99), ..AttributeProto::default() };
    let read = AttributeProto::decode(&attribute.encode_to_vec()[..]);
    assert_eq!(read, Ok(attribute));
    assert!(attribute_proto::AttributeType::try_from(99).is_err());
    assert_eq!(tensor_proto::DataType::try_from(28), Ok(tensor_proto::DataType::Float6e3m2));
}

#[test]
fn a_field_newer_than_the_schema_is_skipped() {
    let known = ModelProto { ir_version: Some(99), ..ModelProto::default() };
    // Field 1000, as a number, as bytes and as a group that holds a number.
    let number = [varint(1000 << 3), varint(5)].concat();
    let bytes = [varint(1000 << 3 | 2), sized(b"unknown")].concat();
    let group = [varint(1000 << 3 | 3), number.clone(), varint(1000 << 3 | 4)].concat();
    let file = [number, bytes, group, known.encode_to_vec()].concat();
    assert_eq!(decode_model(file.into()), Ok(known));
}
