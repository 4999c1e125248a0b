//! A value in a file of any bytes: a tensor, a sequence, an optional or a map.

use onnxc::import::value;
use onnxc_proto::{TypeProto, type_proto};

/// Runs the target. The first byte chooses the type that the reader expects.
pub fn run(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let expected = match kind % 4 {
        0 => None,
        1 => Some(type_proto::Value::SequenceType(Default::default())),
        2 => Some(type_proto::Value::OptionalType(Default::default())),
        _ => Some(type_proto::Value::MapType(Default::default())),
    };
    let expected = expected.map(|value| TypeProto { value: Some(value), denotation: None });
    let Ok(found) = value::read(bytes.to_vec().into(), expected.as_ref()) else { return };
    let again = value::read(value::write(&found, "x").into(), expected.as_ref());
    let again = again.unwrap_or_else(|error| panic!("{found:?} is written but not read: {error}"));
    assert!(format!("{found:?}") == format!("{again:?}"), "{found:?} is read as {again:?}");
}
